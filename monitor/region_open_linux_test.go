package monitor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A container can put anything into the directory it shares with the hook.
func TestReadRegionRefusesWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, regionFile{slots: [][]uint64{{7}}}.bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, make := range map[string]func(path string) error{
		"a link":      func(path string) error { return os.Symlink(secret, path) },
		"a pipe":      func(path string) error { return unix.Mkfifo(path, 0o666) },
		"a directory": func(path string) error { return os.Mkdir(path, 0o777) },
		"a socket": func(path string) error {
			fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			return unix.Bind(fd, &unix.SockaddrUnix{Name: path})
		},
	} {
		t.Run(want, func(t *testing.T) {
			// Sockets have short names.
			short, err := os.MkdirTemp("", "r")
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(short)
			path := filepath.Join(short, "r")
			if err := make(path); err != nil {
				t.Fatal(err)
			}
			got, err := readRegion(path, 1, new(regionBuffer))
			if err == nil || !strings.Contains(err.Error(), "want a regular file, have "+want) || got.used != nil {
				t.Errorf("got %+v, %v, want a refusal of %s", got, err, want)
			}
		})
	}
}

// Opening a device node can start a watchdog or make a user of KFD. It takes
// rights to make one, which a container has by default.
func TestReadRegionOpensNoDevice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "device")
	if err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))); err != nil {
		// Without the rights /dev/null, the same device, does.
		path = "/dev/null"
	}
	if _, err := readRegion(path, 1, new(regionBuffer)); err == nil || !strings.Contains(err.Error(), "have a device") {
		t.Errorf("error %v, want a refusal of the device", err)
	}
}
