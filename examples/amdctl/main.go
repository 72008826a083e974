package main

import (
	"fmt"
	"io"
	"os"
	"time"
)

func main() {
	os.Exit(runAs(calledAs(os.Args[0]), time.Now, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// clock tells the time of a scheduling decision.
type clock func() time.Time

// run is the whole program but for the process: it returns the exit code.
func run(clock clock, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return runAs(ownName, clock, args, stdin, stdout, stderr)
}

// runAs is run under another name.
func runAs(name string, clock clock, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot(clock)
	rename(root, name)
	root.SetArgs(append([]string{}, args...)) // nil would mean the process's own
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	if err := root.Execute(); err != nil {
		fmt.Fprintln(stderr, name+": "+oneLine(err.Error()))
		return 1
	}
	return 0
}
