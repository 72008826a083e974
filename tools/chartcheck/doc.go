// Package chartcheck holds the tests of the Helm chart in
// examples/deviceplugin/chart. It has no code of its own, and is in this module
// because the repository's own must not require Helm.
//
// The chart is rendered with the values in examples/deviceplugin/testdata/values,
// which together take every branch of the templates. What comes out is kept in
// testdata/rendered beside them, where it can be read, and where the tests of
// the plugin find it without Helm. It is written, like the table of values in
// the chart's README, by
//
//	go test ./chartcheck -update
package chartcheck
