// Package exporter asks the AMD Device Metrics Exporter what it thinks of a
// node's GPUs.
//
// The exporter watches ECC counters and other RAS sources that sysfs does not
// show, and offers a verdict per GPU over gRPC on a root-only unix socket. It
// is an optional source: List answers with the verdicts of one call, and every
// failure to get them is ErrNoVerdict, which says nothing about the GPUs. An
// absent exporter, a GPU it does not list and a word it has not promised are
// all Unknown, and Unknown is never unhealthy: the caller falls back to what
// it can see itself.
//
// The few messages are decoded by hand with protowire instead of generated
// code: two of them are used, and both service names the exporter has had in
// its sources carry the same fields. Facts are from the exporter's
// gpumetricssvc.proto and from its server, which registers the service as
// metricssvc.MetricsService.
package exporter
