package dmem

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"syscall"
)

// Cap is the most VRAM of one region that a cgroup may use.
type Cap struct {
	Region string // see [VRAMRegion]
	Bytes  uint64
}

// Why a limit is not set although nothing is wrong with the request. Both mean
// that more is in use than the limit allows, and may pass.
var (
	// ErrBusy: the kernel refused the write (EBUSY).
	ErrBusy = errors.New("more is in use than the limit")
	// ErrNotInForce: the kernel took the write and kept another limit, as
	// kernels do that ignore a limit below the usage.
	ErrNotInForce = errors.New("limit not in force")
)

// ErrNoRegion is a region the kernel does not list.
var ErrNoRegion = errors.New("no such dmem region")

// LimitError is a limit that could not be set.
type LimitError struct {
	Cgroup, Region string
	Want, Have     Limit   // Have is what holds after the attempt
	Current        *uint64 // bytes in use, nil if they could not be read
	Err            error
}

// Error gives the numbers that decide whether to wait or to act.
func (e *LimitError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "dmem limit of %q in %q: want %s bytes, have %s", e.Region, e.Cgroup, e.Want, e.Have)
	if e.Current != nil {
		fmt.Fprintf(&b, ", %d in use", *e.Current)
	}
	fmt.Fprintf(&b, ": %v", e.Err)
	return b.String()
}

// Unwrap is the cause: [ErrBusy], [ErrNotInForce], [ErrNoRegion] or the
// kernel's errno.
func (e *LimitError) Unwrap() error { return e.Err }

// SetCaps limits a cgroup in every region of caps, or in none. It is done when
// each limit has been read back; a limit that already holds is not written
// again. The controller is enabled on the way down if needed.
//
// Returns a [LimitError] for a limit that does not hold, a
// [NotDelegatedError], or an [ErrNoCgroup]. After an error all limits are as
// they were; if even that fails, the error says so as well.
func (t *Tree) SetCaps(cgroup string, caps []Cap) error {
	if err := checkCaps(caps); err != nil {
		return err
	}
	if !fs.ValidPath(cgroup) || cgroup == "." {
		return fmt.Errorf("dmem limit: want a cgroup below the root, have %q", cgroup)
	}
	if len(caps) == 0 {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.enable(cgroup); err != nil {
		return err
	}
	before, err := t.values(path.Join(cgroup, maxFileName))
	if err != nil {
		return err
	}
	for _, c := range caps {
		if _, ok := before[c.Region]; !ok {
			return fmt.Errorf("dmem limit of %q in %q: %w", c.Region, t.path(cgroup), ErrNoRegion)
		}
	}
	for i, c := range caps {
		if before[c.Region] == Limit(c.Bytes) {
			continue
		}
		if err := t.set(cgroup, c.Region, Limit(c.Bytes)); err != nil {
			return errors.Join(err, t.restore(cgroup, caps[:i+1], before))
		}
	}
	return nil
}

func checkCaps(caps []Cap) error {
	seen := make(map[string]bool, len(caps))
	for _, c := range caps {
		switch {
		case !plainRegion(c.Region):
			return fmt.Errorf("dmem limit: want a region without blanks, have %q", c.Region)
		case c.Bytes >= 1<<63:
			return fmt.Errorf("dmem limit of %q: want less than 2^63 bytes, have %d", c.Region, c.Bytes)
		case seen[c.Region]:
			return fmt.Errorf("dmem limit of %q: want one, have two", c.Region)
		}
		seen[c.Region] = true
	}
	return nil
}

// set writes one limit and reads it back.
func (t *Tree) set(cgroup, region string, want Limit) error {
	name := path.Join(cgroup, maxFileName)
	werr := t.write(name, region+" "+want.String()+"\n")
	if errors.Is(werr, syscall.EBUSY) {
		werr = ErrBusy
	}
	after, err := t.values(name)
	if err != nil {
		return errors.Join(werr, err)
	}
	have, ok := after[region]
	if werr == nil && ok && have == want {
		return nil
	}
	e := &LimitError{Cgroup: t.path(cgroup), Region: region, Want: want, Have: have, Err: werr}
	switch {
	case !ok:
		e.Err = errors.Join(werr, ErrNoRegion)
	case werr == nil:
		e.Err = ErrNotInForce
	}
	if current, err := t.values(path.Join(cgroup, currentFile)); err == nil {
		if n, ok := current[region]; ok && n != Max {
			e.Current = (*uint64)(&n)
		}
	}
	return e
}

// restore puts limits back to what they were.
func (t *Tree) restore(cgroup string, caps []Cap, before map[string]Limit) error {
	now, err := t.values(path.Join(cgroup, maxFileName))
	if err != nil {
		return fmt.Errorf("undo: %w", err)
	}
	var errs []error
	for _, c := range caps {
		if have, ok := now[c.Region]; !ok || have == before[c.Region] {
			continue
		}
		if err := t.set(cgroup, c.Region, before[c.Region]); err != nil {
			errs = append(errs, fmt.Errorf("undo: %w", err))
		}
	}
	return errors.Join(errs...)
}
