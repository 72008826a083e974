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
func run(w io.Writer, term terminal, now time.Time) (err error) {
	machine, err := testdata.Machine("mi300x-spx-8")
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "quickstart-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := fixture.Unpack(machine, dir); err != nil {
		return err
	}
	c, err := newCluster(filepath.Join(dir, "sys"))
	if err != nil {
		return err
	}
	placements, err := c.addExamples(now)
	if err != nil {
		return err
	}
	return write(w, term, c, placements)
}

// write prints what happened.
func write(w io.Writer, term terminal, c *cluster, placements []placement) error {
	r := &report{w: w, term: term}
	r.registration(c)
	for _, p := range placements {
		r.placement(c, p)
	}
	r.holders(c)
	r.summary(c, placements)
	return r.err
}
