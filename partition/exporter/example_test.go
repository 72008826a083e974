package exporter_test

import (
	"context"
	"fmt"
	"time"

	"github.com/Project-HAMi/hami-amd/partition/exporter"
)

// One health pulse of a node: an exporter that is not there decides nothing,
// and is spoken of once.
func ExampleList() {
	var outage exporter.Outage
	gpus := []string{"0000:05:00.0", "0000:26:00.0"}
	for range 3 {
		verdicts, err := exporter.List(context.Background(), exporter.Options{Socket: "/nonexistent/exporter.socket"})
		if line := outage.Observe(time.Now(), err); line != "" {
			fmt.Println("log: exporter is down")
		}
		fmt.Println("unhealthy:", len(exporter.Reasons(verdicts, gpus)))
	}
	// Output:
	// log: exporter is down
	// unhealthy: 0
	// unhealthy: 0
	// unhealthy: 0
}
