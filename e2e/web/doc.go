// Package web opens the page that `amdctl draw -o html` writes in a real
// browser, Debian's chromium without a display.
package web
