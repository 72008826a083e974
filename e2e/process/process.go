package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Options describe a program. Path and Log are required.
type Options struct {
	// Name is used in errors. Empty: Path.
	Name string
	// Path is looked up on PATH if it has no slash.
	Path string
	Args []string
	// Env is the whole environment. Nil: the test's own.
	Env []string
	// Log is the file that standard output and standard error are appended to.
	Log string
}

// Process is a running or ended program, in a process group of its own. Its
// methods may be called from several goroutines.
type Process struct {
	o    Options
	pid  int
	done chan struct{}
	err  error // valid once done is closed
}

// Start runs a program. A relative Path or Log is relative to the test's folder.
func Start(o Options) (*Process, error) {
	if o.Name == "" {
		o.Name = o.Path
	}
	out, err := os.OpenFile(o.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("start %s: open its log: %w", o.Name, err)
	}
	cmd := exec.Command(o.Path, o.Args...)
	cmd.Env = o.Env
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p := &Process{o: o, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		defer out.Close()
		// The kernel sends Pdeathsig when the thread that forked ends, not the
		// process, so that thread is kept until the child is gone.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			started <- fmt.Errorf("start %s: %w", o.Name, err)
			return
		}
		p.pid = cmd.Process.Pid
		started <- nil
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// PID returns the process id, which is also the id of its group.
func (p *Process) PID() int { return p.pid }

// Done returns a channel that is closed when the program has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err returns how the program ended: nil for exit code 0, else an
// *exec.ExitError. While it runs Err is nil too, see Done.
func (p *Process) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// Signal sends a signal to the program and its children. It returns
// os.ErrProcessDone if the program has ended.
func (p *Process) Signal(sig syscall.Signal) error {
	select {
	case <-p.done:
		return fmt.Errorf("signal %s: %w", p.o.Name, os.ErrProcessDone)
	default:
	}
	if err := syscall.Kill(-p.pid, sig); err != nil {
		return fmt.Errorf("signal %s: %w", p.o.Name, err)
	}
	return nil
}

// Kill ends the program and its children at once, as kill -9 does, and waits
// until it is gone. It does nothing if the program has ended.
func (p *Process) Kill() {
	if p.Signal(syscall.SIGKILL) == nil {
		<-p.done
	}
}

// Freeze stops the program as SIGSTOP does and returns when it has stopped: it
// keeps its sockets and does nothing. thaw lets it go on.
func (p *Process) Freeze() (thaw func() error, err error) {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return nil, err
	}
	// The threads stop one after the other, each when it sees the signal.
	for range 500 {
		stopped, err := p.stopped()
		if err != nil {
			return nil, fmt.Errorf("freeze %s: %w", p.o.Name, err)
		}
		if stopped {
			return func() error { return p.Signal(syscall.SIGCONT) }, nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return nil, errors.Join(fmt.Errorf("freeze %s: it goes on after SIGSTOP", p.o.Name), p.Signal(syscall.SIGCONT))
}

// stopped reports whether every thread is in state T of proc_pid_stat(5).
func (p *Process) stopped() (bool, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.pid))
	if err != nil || len(threads) == 0 {
		return false, fmt.Errorf("find its threads: %w", errors.Join(err, os.ErrProcessDone))
	}
	for _, thread := range threads {
		stat, err := os.ReadFile(thread)
		if errors.Is(err, os.ErrNotExist) {
			continue // this thread has ended
		}
		if err != nil {
			return false, err
		}
		// The state follows the name, which is in brackets and may hold any byte.
		after := bytes.LastIndexByte(stat, ')')
		if after < 0 || !bytes.HasPrefix(stat[after+1:], []byte(" T ")) {
			return false, nil
		}
	}
	return true, nil
}

// WaitReady calls ready again and again until it returns nil. It returns an
// error with the end of the log if the program or ctx ends first.
func (p *Process) WaitReady(ctx context.Context, ready func(context.Context) error) error {
	for {
		last := ready(ctx)
		if last == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s has ended before it was ready: %v\n%s", p.o.Name, p.err, p.Tail(30))
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w, last found: %w\n%s", p.o.Name, context.Cause(ctx), last, p.Tail(30))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Tail returns the last lines of the log, indented.
func (p *Process) Tail(lines int) string {
	data, err := os.ReadFile(p.o.Log)
	if err != nil {
		return fmt.Sprintf("    (no log: %v)\n", err)
	}
	return Tail(data, lines)
}

// Tail returns the last lines of some output, indented.
func Tail(data []byte, lines int) string {
	all := bytes.Split(bytes.TrimRight(data, "\n"), []byte("\n"))
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	var b strings.Builder
	for _, line := range all {
		fmt.Fprintf(&b, "    %s\n", line)
	}
	return b.String()
}

// Find returns the path of a program, or an error that says how to get it.
func Find(path, remedy string) (string, error) {
	found, err := exec.LookPath(path)
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("find %s: it is not there, %s: %w", path, remedy, err)
	}
	if err != nil {
		return "", fmt.Errorf("find %s: %w", path, err)
	}
	return found, nil
}
