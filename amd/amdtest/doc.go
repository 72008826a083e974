// Package amdtest checks a scheduler backend for AMD GPUs from the outside: what
// must hold of any backend that HAMi calls, whatever GPUs it prefers.
//
// It is written against a small interface, so that it runs on package amd, on
// the adapter that puts it into HAMi, and on anybody else's backend:
//
//	func TestConformance(t *testing.T) {
//		amdtest.Run(t, backend{})
//	}
//
// Machines, loads and requests are made up from fixed seeds; a failure names the
// seed and prints what went in.
package amdtest
