// Package e2e holds the tests on real parts of Kubernetes: a kube-apiserver
// with etcd (package cluster), kubelet's device manager (package kubelet) and a
// driver that does what HAMi's scheduler does (package scheduler).
//
// They run as root, in a mount namespace of their own, with
//
//	go test -p 1 ./...
//
// A part that is missing fails them. The first run builds the API server, which
// can take longer than the patience of go test; go run ./cmd/apiserver -build
// does it beforehand.
package e2e
