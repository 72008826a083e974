// Package prometheus holds the tests of what an operator sees: a Prometheus
// server scrapes the monitor of examples/monitor, which runs as the chart runs
// it, against a real API server; promtool checks the chart's rules and tests
// each alert; and the queries of the dashboard are asked.
//
// The GPUs are a machine of testdata, and the dmem controller is dmem/dmemtest:
// a folder that behaves like the kernel's.
//
// It needs Debian's package prometheus, which has promtool too, and what
// package cluster needs.
package prometheus
