package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/Project-HAMi/hami-amd/examples/pods"
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
	examples, err := pods.All()
	if err != nil {
		return err
	}
	r := newReport(w, term)
	r.registration(c)
	var placements []placement
	for _, pod := range examples {
		p, err := c.add(pod, now)
		if err != nil {
			return fmt.Errorf("%s: %w", pod.File, err)
		}
		r.placement(c, p)
		placements = append(placements, p)
	}
	r.holders(c)
	r.summary(c, placements)
	return r.err
}
