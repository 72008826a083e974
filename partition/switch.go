package partition

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

// SwitchOptions say what to switch GPUs to.
type SwitchOptions struct {
	// To is the compute partition mode that is wanted. Required.
	To ComputeMode
	// Exclude lists GPUs to leave alone, as in RegisterOptions.
	Exclude []string
	// InUse gives the reason for each GPU that is taken although the kernel
	// may not know yet: a pod that holds it has perhaps not opened it.
	InUse map[BDF]string
	// Timeout is how long one GPU may take to show up in its new mode after
	// the kernel accepted it; 0 means 30 s.
	Timeout time.Duration
	// Poll is the time between two looks; 0 means 200 ms.
	Poll time.Duration

	// What tests replace. A nil write writes the mode file, a nil sleep waits.
	write func(root *os.Root, name, mode string) error
	sleep func(context.Context, time.Duration) error
}

// SwitchOutcome says how the switch of one GPU ended.
type SwitchOutcome string

// The outcomes.
const (
	// Switched: the GPU has left its old mode, shows the new one and has KFD
	// nodes again. Every inventory from before is stale.
	Switched SwitchOutcome = "switched"
	// SwitchAlready: the GPU is in the wanted mode.
	SwitchAlready SwitchOutcome = "already"
	// SwitchBusy: something uses the GPU. The kernel refuses while any process
	// has KFD open, monitors included; render nodes alone do not count.
	SwitchBusy SwitchOutcome = "busy"
	// SwitchUnsupported: the GPU cannot change its mode, or not to this one,
	// or not in its memory partition mode.
	SwitchUnsupported SwitchOutcome = "unsupported"
	// SwitchNeedsReload: the kernel could not bring KFD up again. The GPU
	// cannot compute until the amdgpu driver is reloaded.
	SwitchNeedsReload SwitchOutcome = "needs driver reload"
	// SwitchFailed: everything else, such as a GPU in reset or a missing
	// permission.
	SwitchFailed SwitchOutcome = "failed"
)

// SwitchResult is what became of one GPU.
type SwitchResult struct {
	BDF     BDF
	Outcome SwitchOutcome
	// From is the mode before, Now the mode read last; "" is unknown.
	From, Now ComputeMode
	// Nodes is the number of KFD nodes of a GPU that was switched.
	Nodes int
	// Err is nil for Switched and SwitchAlready.
	Err error
}

// String is the result in one line, for a log.
func (r SwitchResult) String() string {
	switch r.Outcome {
	case Switched:
		from := string(r.From)
		if from == "" {
			from = "an unknown mode"
		}
		return fmt.Sprintf("%s: switched from %s to %s, KFD nodes: %d", r.BDF, from, r.Now, r.Nodes)
	case SwitchAlready:
		return fmt.Sprintf("%s: already in %s", r.BDF, r.Now)
	}
	return fmt.Sprintf("%s: %s: %v", r.BDF, r.Outcome, r.Err)
}

// Switch puts the GPUs of an inventory into a compute partition mode, one after
// the other in order of PCI address, and gives one result per GPU that is not
// excluded. A GPU that is not switched stays as it is and is to be registered
// so.
//
// It needs root and a writable sysfs. Each switch renumbers the KFD nodes of
// all GPUs, so the GPU is looked up afresh before it is touched, and the
// caller has to Discover again afterwards. A GPU counts as switched once the
// kernel accepted the mode, the mode file shows it and KFD lists the GPU.
//
// When ctx ends, the GPUs not yet touched are reported as failed; one whose
// switch the kernel has begun cannot be called back, and Now is "" for it.
//
// The error is about the options or the root, before anything was touched.
func Switch(ctx context.Context, root string, inv *Inventory, opts SwitchOptions) ([]SwitchResult, error) {
	if !opts.To.known() {
		return nil, fmt.Errorf("switching GPUs: compute partition %s: want one of %q, %q, %q, %q or %q",
			quoted(string(opts.To)), SPX, DPX, TPX, QPX, CPX)
	}
	skip, _, err := excluded(inv.GPUs, opts.Exclude)
	if err != nil {
		return nil, fmt.Errorf("switching GPUs: %w", err)
	}
	t, err := openTree(root)
	if err != nil {
		return nil, fmt.Errorf("switching GPUs: %w", err)
	}
	defer t.close()

	s := &switcher{root: root, tree: t, opts: opts}
	s.defaults()
	var results []SwitchResult
	for i := range inv.GPUs {
		if bdf := inv.GPUs[i].BDF; !skip[bdf] {
			results = append(results, s.one(ctx, bdf))
		}
	}
	return results, nil
}

type switcher struct {
	root string
	tree *tree
	opts SwitchOptions
}

func (s *switcher) defaults() {
	if s.opts.Timeout <= 0 {
		s.opts.Timeout = 30 * time.Second
	}
	if s.opts.Poll <= 0 {
		s.opts.Poll = 200 * time.Millisecond
	}
	if s.opts.write == nil {
		s.opts.write = writeMode
	}
	if s.opts.sleep == nil {
		s.opts.sleep = sleep
	}
}

// one switches one GPU. Whatever happens, the result names the mode that the
// GPU was last seen in.
func (s *switcher) one(ctx context.Context, bdf BDF) SwitchResult {
	r := SwitchResult{BDF: bdf}
	if r.Err = ctx.Err(); r.Err != nil {
		r.Outcome = SwitchFailed
		r.Err = fmt.Errorf("not tried: %w", r.Err)
		return r
	}
	from, err := s.mode(bdf)
	if err == nil {
		r.From, r.Now = from, from
		if from == s.opts.To {
			r.Outcome = SwitchAlready
			return r
		}
	}
	if r.Outcome, r.Err = s.allowed(bdf, err); r.Err != nil {
		return r
	}
	if r.Outcome, r.Err = s.switchTo(ctx, bdf); r.Err != nil {
		r.Now, _ = s.mode(bdf)
		if errors.Is(r.Err, errStillSwitching) {
			r.Now = ""
		}
		return r
	}
	r.Now, r.Nodes, r.Err = s.verify(ctx, bdf)
	if r.Outcome = Switched; r.Err != nil {
		r.Outcome = SwitchFailed
	}
	return r
}

// allowed checks, before anything is written, that the GPU offers the mode and
// nobody is known to use it. modeErr is what reading its present mode gave.
// Whether the memory partition mode allows it is left to the kernel, which
// looks before it touches anything and knows every board.
func (s *switcher) allowed(bdf BDF, modeErr error) (SwitchOutcome, error) {
	if why, ok := s.opts.InUse[bdf]; ok {
		return SwitchBusy, fmt.Errorf("in use: %s", why)
	}
	inv, err := Discover(s.root)
	if err != nil {
		return SwitchFailed, err
	}
	g, err := inv.find(bdf)
	if err != nil {
		return SwitchFailed, err
	}
	switch {
	case len(g.ComputeModes) == 0:
		return SwitchUnsupported, fmt.Errorf("the GPU cannot change its compute partition mode")
	case !slices.Contains(g.ComputeModes, s.opts.To):
		return SwitchUnsupported, fmt.Errorf("mode %s is not offered, only %s", s.opts.To, join(g.ComputeModes))
	case modeErr != nil:
		return SwitchFailed, modeErr
	}
	users, err := kfdUsers(s.tree, g)
	if err != nil {
		return SwitchFailed, err
	}
	if len(users.thisGPU) > 0 {
		return SwitchBusy, fmt.Errorf("used by process %s", join(users.thisGPU))
	}
	return "", nil
}

// busyRetries is how often a busy GPU is tried again while no process has KFD
// open: the kernel frees a process's KFD state some time after its exit.
const busyRetries = 3

var errStillSwitching = errors.New("the kernel has not finished switching")

// switchTo writes the mode and makes sense of what the kernel answers.
func (s *switcher) switchTo(ctx context.Context, bdf BDF) (SwitchOutcome, error) {
	name := pciFile(bdf, "current_compute_partition")
	var err error
	for try := 0; ; try++ {
		if err = s.writeInterruptibly(ctx, name); !errors.Is(err, syscall.EBUSY) || try == busyRetries {
			break
		}
		if users, uerr := kfdUsers(s.tree, nil); uerr != nil || len(users.all) > 0 {
			break
		}
		if serr := s.opts.sleep(ctx, s.opts.Poll); serr != nil {
			break
		}
	}
	switch {
	case err == nil:
		return Switched, nil
	case errors.Is(err, syscall.EBUSY):
		users, _ := kfdUsers(s.tree, nil)
		if len(users.all) == 0 {
			return SwitchBusy, fmt.Errorf("the kernel says that KFD is in use: %w", err)
		}
		return SwitchBusy, fmt.Errorf("KFD is in use by process %s: %w", join(users.all), err)
	case errors.Is(err, syscall.EINVAL):
		memory, _ := s.tree.read(pciFile(bdf, "current_memory_partition"))
		return SwitchUnsupported, fmt.Errorf("the kernel refuses mode %s in memory partition mode %s: %w", s.opts.To, quoted(strings.TrimSpace(memory)), err)
	case errors.Is(err, syscall.EIO):
		return SwitchNeedsReload, fmt.Errorf("KFD did not start in mode %s, reload the amdgpu driver: %w", s.opts.To, err)
	case errors.Is(err, syscall.EPERM):
		return SwitchFailed, fmt.Errorf("the GPU is in reset or has no KFD: %w", err)
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EROFS):
		return SwitchFailed, fmt.Errorf("the mode file is not writable, switching needs root and a writable sysfs: %w", err)
	}
	return SwitchFailed, err
}

// writeInterruptibly gives up waiting for the kernel when ctx ends: a switch
// takes seconds, and a write that has begun cannot be called back.
func (s *switcher) writeInterruptibly(ctx context.Context, name string) error {
	done := make(chan error, 1)
	go func() { done <- s.opts.write(s.tree.root, name, strings.ToUpper(string(s.opts.To))) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", errStillSwitching, ctx.Err())
	}
}

// verify waits until the GPU shows the new mode and KFD lists it.
func (s *switcher) verify(ctx context.Context, bdf BDF) (now ComputeMode, nodes int, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	for {
		if now, nodes, err = s.look(bdf); err == nil {
			return now, nodes, nil
		}
		if ended := s.opts.sleep(ctx, s.opts.Poll); ended != nil {
			return now, 0, fmt.Errorf("the kernel accepted mode %s, but %w: %w", s.opts.To, err, ended)
		}
	}
}

// look is one look at a GPU that was switched. The error says what is missing.
func (s *switcher) look(bdf BDF) (now ComputeMode, nodes int, err error) {
	if now, err = s.mode(bdf); err != nil {
		return "", 0, err
	}
	if now != s.opts.To {
		return now, 0, fmt.Errorf("the GPU shows mode %s", quoted(string(now)))
	}
	inv, err := Discover(s.root)
	if err != nil {
		return now, 0, err
	}
	g, err := inv.find(bdf)
	if err != nil {
		return now, 0, err
	}
	return now, len(g.Nodes), nil
}

// mode reads the GPU's compute partition mode. A word that is no mode is not
// an error: it is "", and any mode can be written over it.
func (s *switcher) mode(bdf BDF) (ComputeMode, error) {
	text, err := s.tree.read(pciFile(bdf, "current_compute_partition"))
	switch {
	case errors.Is(err, syscall.EPERM):
		return "", fmt.Errorf("the GPU is in reset: %w", err)
	case err != nil:
		return "", err
	}
	m, _ := parseComputeMode(strings.TrimSpace(text))
	return m, nil
}

// find looks a GPU up, and says why when it cannot be used.
func (inv *Inventory) find(bdf BDF) (*GPU, error) {
	for i := range inv.GPUs {
		if inv.GPUs[i].BDF == bdf {
			return &inv.GPUs[i], nil
		}
	}
	for _, s := range inv.Skipped {
		if s.Device == string(bdf) {
			return nil, fmt.Errorf("the GPU cannot be used: %w", s.Reason)
		}
	}
	return nil, errors.New("KFD does not list the GPU")
}

// writeMode writes a mode in one write(2), through the root: a path built from
// input must not leave it.
func writeMode(root *os.Root, name, mode string) error {
	f, err := root.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(mode)
	return errors.Join(err, f.Close())
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// join lists values in a message.
func join[T any](values []T) string {
	text := make([]string, len(values))
	for i, v := range values {
		text[i] = fmt.Sprint(v)
	}
	return strings.Join(text, ", ")
}
