// Package docs holds the tests that keep the documents of this folder true. It
// has no code of its own.
//
// What a block of a document is, and so how it is checked, is said behind its
// language:
//
//	sh               run at the root of the repository, with what the reader has: Go
//	sh cluster       needs a cluster or root: programs, flags and names are checked
//	text output      what the sh block before it prints
//	text <key>       a value of an annotation, decoded
//	yaml             a Kubernetes object; a pod has to pass strict admission
//	yaml values      values of the chart, rendered by package chartcheck in tools
//	yaml hami        the block "amd" of HAMi's device configuration
//	yaml prometheus  configuration of Prometheus, checked in e2e/prometheus
//	promql           a query, likewise
//	mermaid          a diagram; the one of the rooms is compared with the imports
//
// Flags, values, variables, annotations, metrics and messages that a document
// names in code style have to exist.
package docs
