package kubelet

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// rootDir is kubelet's folder. Its device manager takes no other: the socket
// path is a constant of the device plugin API.
const rootDir = "/var/lib/kubelet"

// namespaceEnv marks the process that runs in the namespace already.
const namespaceEnv = "HAMI_AMD_E2E_NAMESPACE"

// InNamespace runs run with a private, empty /var/lib/kubelet, and private
// empty folders at the other paths, and returns its result as an exit code. It
// is meant for TestMain:
//
//	func TestMain(m *testing.M) { os.Exit(kubelet.InNamespace(m.Run)) }
//
// A Go process cannot move itself into another mount namespace, because
// unshare(2) moves one thread. So the process runs itself again as a child in a
// new namespace, with the same arguments, and passes on its exit code. Nothing
// mounted there is seen outside, and all of it is gone when the child ends.
// It needs root. What goes wrong is printed and gives exit code 1.
func InNamespace(run func() int, private ...string) int {
	private = append([]string{rootDir}, private...)
	if os.Getenv(namespaceEnv) == "" {
		code, err := runAgain(private)
		if err != nil {
			fmt.Fprintln(os.Stderr, "e2e:", err)
		}
		return code
	}
	// Children of the tests, such as a test binary they run, are to make their own.
	if err := os.Unsetenv(namespaceEnv); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	for _, dir := range private {
		if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"); err != nil {
			fmt.Fprintf(os.Stderr, "e2e: mount a private %s: %v\n", dir, err)
			return 1
		}
	}
	return run()
}

// runAgain runs this program in a new mount namespace and returns its exit code.
func runAgain(dirs []string) (int, error) {
	if os.Geteuid() != 0 {
		return 1, errors.New("make a mount namespace: want root, these tests put a private folder at " + rootDir)
	}
	program, err := os.Executable()
	if err != nil {
		return 1, fmt.Errorf("find the test binary: %w", err)
	}
	// Mount points must exist outside too; those made here are removed again.
	for _, dir := range dirs {
		made, err := makeDirs(dir)
		if err != nil {
			return 1, fmt.Errorf("make a mount point: %w", err)
		}
		defer removeDirs(made)
	}
	cmd := exec.Command(program, os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), namespaceEnv+"=1")
	// With Unshareflags the Go runtime also makes every mount private, so that
	// what is mounted inside does not spread to the outside.
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}

	// `go test` asks a hanging test for its stacks with SIGQUIT: pass it on.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	defer signal.Stop(signals)

	runtime.LockOSThread() // Pdeathsig follows the thread that forks
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return 1, fmt.Errorf("run the tests in a mount namespace: %w", err)
	}
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		for {
			select {
			case s := <-signals:
				_ = cmd.Process.Signal(s) // it may have ended just now
			case <-ended:
				return
			}
		}
	}()
	var exit *exec.ExitError
	switch err := cmd.Wait(); {
	case errors.As(err, &exit) && exit.Exited():
		return exit.ExitCode(), nil
	case err != nil:
		return 1, fmt.Errorf("run the tests in a mount namespace: %w", err)
	}
	return 0, nil
}

// makeDirs is os.MkdirAll that tells which folders it made, the deepest first.
func makeDirs(dir string) (made []string, err error) {
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Stat(d); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		made = append(made, d)
	}
	return made, os.MkdirAll(dir, 0o755)
}

func removeDirs(dirs []string) {
	for _, dir := range dirs {
		if os.Remove(dir) != nil {
			return // someone uses it by now
		}
	}
}
