// Package version says which build of the project a program is.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// linked is set by the linker (-X) where the Go command cannot know the version,
// as in an image that is built without the repository's history.
var linked string

// String is the version in one line, such as "v0.1.0, go1.26.0, linux/amd64":
// what the linker was told, else what the Go command knows, which is a release,
// or the commit with "+dirty" for changes on top.
func String() string {
	known := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		known = info.Main.Version
	}
	return line(linked, known)
}

func line(linked, known string) string {
	switch {
	case linked != "":
		known = linked
	case known == "" || known == "(devel)":
		known = "unknown version"
	}
	return fmt.Sprintf("%s, %s, %s/%s", known, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
