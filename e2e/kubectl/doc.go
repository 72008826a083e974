// Package kubectl holds the tests of amdctl as kubectl's subcommand, on a real
// kube-apiserver and with kubectl of the same release.
package kubectl
