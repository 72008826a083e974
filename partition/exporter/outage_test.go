package exporter_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/Project-HAMi/hami-amd/partition/exporter"
)

func TestOutageSpeaksOncePerOutage(t *testing.T) {
	gone := fmt.Errorf("%w: no socket", exporter.ErrNoVerdict)
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var o exporter.Outage
	var lines []string
	for i, err := range []error{nil, gone, gone, errors.New("another"), context.Canceled, nil, nil, gone, gone} {
		if line := o.Observe(start.Add(time.Duration(i)*10*time.Second), err); line != "" {
			lines = append(lines, fmt.Sprintf("%d: %s", i, line))
		}
	}
	want := []string{
		"1: no verdict from the metrics exporter: no socket; GPU health comes from the node's own checks until it answers",
		"5: the metrics exporter answers again after 40s",
		"7: no verdict from the metrics exporter: no socket; GPU health comes from the node's own checks until it answers",
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Error(diff)
	}
	if !o.Down() {
		t.Error("the exporter counts as up after a failure")
	}
}
