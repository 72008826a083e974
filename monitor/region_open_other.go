//go:build !linux

package monitor

import (
	"fmt"
	"os"
)

// openRegion opens a region that was copied from a node: the hook itself runs
// on Linux only.
func openRegion(path string) (*os.File, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%q: want a regular file, have %s", path, info.Mode().Type())
	}
	return os.Open(path)
}
