// Package comparison measures this backend beside HAMi's own, which it replaces:
//
//	go test -bench . ./internal/comparison
//
// It is apart from package hami because HAMi, once it imports that, has no
// backend of its own any more, and its go mod tidy resolves what the tests of
// package hami import.
package comparison
