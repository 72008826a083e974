package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/Project-HAMi/hami-amd/internal/fixture"
	"github.com/Project-HAMi/hami-amd/testdata"
)

func main() {
	if err := run(os.Stdout, terminalOf(os.Stdout, os.LookupEnv), time.Now()); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

// run goes the whole way and prints it.
func run(w io.Writer, term terminal, now time.Time) error {
	c, err := discoverNode()
	if err != nil {
		return err
	}
	placements, err := c.addExamples(now)
	if err != nil {
		return err
	}
	return write(w, term, c, placements)
}

// discoverNode unpacks the recorded node's sysfs and discovers its GPUs. The
// copy is gone before anything is printed: a closed pipe ends the program there
// and then.
func discoverNode() (c *cluster, err error) {
	machine, err := testdata.Machine("mi300x-spx-8")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "quickstart-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := fixture.Unpack(machine, dir); err != nil {
		return nil, err
	}
	return newCluster(filepath.Join(dir, "sys"))
}

// write prints what happened.
func write(w io.Writer, term terminal, c *cluster, placements []placement) error {
	r := &report{w: w, term: term}
	r.summary(c, placements)
	r.registration(c)
	r.legend(placements)
	for _, p := range placements {
		r.placement(c, p)
	}
	r.holders(c)
	return r.err
}
