// Package hamitest has the pods, nodes and API server that the tests of package
// hami and of its scheduler share.
package hamitest
