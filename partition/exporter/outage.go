package exporter

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Outage turns a stream of List results into log lines: one when the exporter
// stops answering, one when it answers again, none in between. The zero value
// is ready to use; it is not safe for concurrent use.
type Outage struct {
	down  bool
	since time.Time
}

// Observe takes the error of one List and gives the line to log, or "" when
// there is nothing new. A call that its own caller cancelled is no sign of an
// outage and changes nothing.
func (o *Outage) Observe(now time.Time, err error) string {
	switch {
	case errors.Is(err, context.Canceled):
		return ""
	case err != nil && !o.down:
		o.down, o.since = true, now
		return fmt.Sprintf("%v; GPU health comes from the node's own checks until it answers", err)
	case err == nil && o.down:
		o.down = false
		return fmt.Sprintf("the metrics exporter answers again after %v", now.Sub(o.since).Round(time.Second))
	}
	return ""
}

// Down reports whether the last result observed was a failure.
func (o *Outage) Down() bool { return o.down }
