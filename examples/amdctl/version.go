package main

import (
	"fmt"
	"runtime/debug"
)

// version is what the program was built from: the module's version, the commit
// where Go has recorded one, and the version of Go.
func version(read func() (*debug.BuildInfo, bool)) string {
	info, ok := read()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	if v == "" {
		v = "(devel)"
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if commit := settings["vcs.revision"]; commit != "" {
		v += " commit " + commit
		if settings["vcs.modified"] == "true" {
			v += " with changes"
		}
	}
	return fmt.Sprintf("%s (%s)", v, info.GoVersion)
}
