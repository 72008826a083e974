// Command hookinstaller copies the memory hook of the plugin's image to its
// node. It is the init container of the chart, and a program of its own because
// the image has no shell to copy with.
//
//	hookinstaller -host_hook_path /usr/local
package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/Project-HAMi/hami-amd/hook"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run is the whole program but for the process: it returns the exit code, 2
// for a command line it does not understand.
func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("hookinstaller", flag.ContinueOnError)
	flags.SetOutput(stderr)
	source := flags.String("source", "/opt/hami/lib/amd/"+hook.Library, "`file` of the image to install")
	hostPath := flags.String("host_hook_path", hook.DefaultHostPath, "host `directory` that gets it as vgpu/"+hook.Library)
	switch err := flags.Parse(args); {
	case err == flag.ErrHelp:
		return 0
	case err != nil:
		return 2
	case flags.NArg() > 0:
		fmt.Fprintf(stderr, "hookinstaller: want flags only, found %q\n", flags.Arg(0))
		return 2
	}
	target, err := hook.HostLibrary(*hostPath)
	if err != nil {
		fmt.Fprintln(stderr, "hookinstaller:", err)
		return 1
	}
	changed, err := hook.Install(*source, *hostPath)
	switch {
	case err != nil:
		fmt.Fprintln(stderr, "hookinstaller:", err)
		return 1
	case changed:
		fmt.Fprintf(stdout, "installed %s\n", target)
	default:
		fmt.Fprintf(stdout, "%s is up to date\n", target)
	}
	return 0
}
