package main

import (
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// Installed under pluginFile on the PATH, kubectl finds this program as its
// subcommand (kubectl's plugin mechanism).
const (
	pluginFile = "kubectl-amd"
	pluginName = "kubectl amd"
	ownName    = "amdctl"
)

// calledAs is the name to show to who called the program by this path.
func calledAs(path string) string {
	if strings.TrimSuffix(filepath.Base(path), ".exe") == pluginFile {
		return pluginName
	}
	return ownName
}

// rename makes all of the help speak of the program by another name.
func rename(root *cobra.Command, name string) {
	if name == ownName {
		return
	}
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: name}
	for _, cmd := range append(root.Commands(), root) {
		cmd.Long = strings.ReplaceAll(cmd.Long, ownName, name)
		cmd.Example = strings.ReplaceAll(cmd.Example, ownName, name)
	}
}

// isPlugin reports whether the program was called as kubectl's subcommand.
func isPlugin(cmd *cobra.Command) bool {
	return cmd.Root().Annotations[cobra.CommandDisplayNameAnnotation] == pluginName
}
