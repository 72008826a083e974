// Package readme holds the tests that keep README.md true: its programs
// compile and its commands run. It has no code of its own.
package readme
