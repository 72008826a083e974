package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// orphanEnv makes the test binary a parent that can be killed.
const orphanEnv = "PROCESS_TEST_PARENT_LOG"

func TestMain(m *testing.M) {
	if log := os.Getenv(orphanEnv); log != "" {
		p, err := Start(sleeper(log))
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(p.PID())
		<-p.Done()
	}
	os.Exit(m.Run())
}

// sleeper is a program with a child, both of which outlive any test.
func sleeper(log string) Options {
	return Options{Path: "sh", Args: []string{"-c", "echo ready; sleep 1000 & wait"}, Log: log}
}

func start(t *testing.T, o Options) *Process {
	t.Helper()
	if o.Log == "" {
		o.Log = filepath.Join(t.TempDir(), "log")
	}
	p, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

func logged(p *Process, text string) func(context.Context) error {
	return func(context.Context) error {
		if got := p.Tail(10); !strings.Contains(got, text) {
			return fmt.Errorf("no %q in %q", text, got)
		}
		return nil
	}
}

func TestKillEndsTheWholeGroup(t *testing.T) {
	p := start(t, sleeper(filepath.Join(t.TempDir(), "log")))
	if err := p.WaitReady(t.Context(), logged(p, "ready")); err != nil {
		t.Fatal(err)
	}
	p.Kill()
	p.Kill()
	waitGone(t, -p.PID())
	var exit *exec.ExitError
	if !errors.As(p.Err(), &exit) {
		t.Errorf("Err after Kill is %v, want an exit error", p.Err())
	}
	if err := p.Signal(syscall.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("signal after the end: %v, want ErrProcessDone", err)
	}
}

func TestProgramDiesWithTheTest(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	parent := exec.Command(self)
	parent.Env = append(os.Environ(), orphanEnv+"="+filepath.Join(t.TempDir(), "log"))
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatalf("the parent says %q", line)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // "signal: killed"
	waitGone(t, pid)
	// Only the program itself is killed by the kernel; its own child is not.
	_ = syscall.Kill(-pid, syscall.SIGKILL)
}

// waitGone waits until no live process has the id, or the group -id.
func waitGone(t *testing.T, id int) {
	t.Helper()
	for range 500 {
		if errors.Is(syscall.Kill(id, 0), syscall.ESRCH) || zombie(id) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("process %d is still there", id)
}

// zombie reports whether a dead process waits to be reaped by whoever adopted it.
func zombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", max(pid, -pid)))
	return err == nil && strings.Contains(string(stat), ") Z ")
}

func TestFreeze(t *testing.T) {
	p := start(t, sleeper(filepath.Join(t.TempDir(), "log")))
	if err := p.WaitReady(t.Context(), logged(p, "ready")); err != nil {
		t.Fatal(err)
	}
	thaw, err := p.Freeze()
	if err != nil {
		t.Fatal(err)
	}
	if stopped, err := p.stopped(); !stopped || err != nil {
		t.Errorf("stopped after Freeze is %v, %v", stopped, err)
	}
	if err := thaw(); err != nil {
		t.Fatal(err)
	}
	for range 500 {
		if stopped, err := p.stopped(); err != nil {
			t.Fatal(err)
		} else if !stopped {
			p.Kill()
			if _, err := p.Freeze(); !errors.Is(err, os.ErrProcessDone) {
				t.Errorf("freeze after the end: %v, want ErrProcessDone", err)
			}
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("the program does not go on after thaw")
}

func TestWaitReady(t *testing.T) {
	notYet := errors.New("not yet")
	t.Run("program that ends", func(t *testing.T) {
		p := start(t, Options{Name: "broken", Path: "sh", Args: []string{"-c", "echo no such flag; exit 3"}})
		err := p.WaitReady(t.Context(), func(context.Context) error { return notYet })
		const want = "broken has ended before it was ready: exit status 3\n    no such flag\n"
		if err == nil || err.Error() != want {
			t.Errorf("error is %q, want %q", err, want)
		}
	})
	t.Run("context that ends", func(t *testing.T) {
		p := start(t, sleeper(filepath.Join(t.TempDir(), "log")))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := p.WaitReady(ctx, func(context.Context) error { return notYet })
		if !errors.Is(err, context.Canceled) || !errors.Is(err, notYet) {
			t.Errorf("error is %v, want the context's and the last check's", err)
		}
	})
}

func TestStartRefuses(t *testing.T) {
	for name, o := range map[string]Options{
		"program that is not there":    {Path: "/nonexistent/etcd", Log: filepath.Join(t.TempDir(), "log")},
		"log in no folder":             {Path: "true", Log: filepath.Join(t.TempDir(), "none", "log")},
		"program that may not be run":  {Path: "/etc/hostname", Log: filepath.Join(t.TempDir(), "log")},
		"program not found along PATH": {Path: "no-such-program", Log: filepath.Join(t.TempDir(), "log")},
	} {
		t.Run(name, func(t *testing.T) {
			if p, err := Start(o); err == nil {
				p.Kill()
				t.Error("started")
			}
		})
	}
}

func TestFindNamesTheRemedy(t *testing.T) {
	_, err := Find("/nonexistent/etcd", "install Debian's etcd-server")
	if err == nil || !strings.Contains(err.Error(), "install Debian's etcd-server") {
		t.Errorf("error is %v, want one with the remedy", err)
	}
	if path, err := Find("sh", ""); err != nil || !filepath.IsAbs(path) {
		t.Errorf("sh is at %q: %v", path, err)
	}
}

func TestTail(t *testing.T) {
	for name, tt := range map[string]struct {
		text  string
		lines int
		want  string
	}{
		"fewer lines than asked":  {"a\nb\n", 3, "    a\n    b\n"},
		"more lines than asked":   {"a\nb\nc\n", 2, "    b\n    c\n"},
		"last line without break": {"a\nb", 1, "    b\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Tail([]byte(tt.text), tt.lines)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
