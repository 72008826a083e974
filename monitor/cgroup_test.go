package monitor

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/Project-HAMi/hami-amd/dmem"
)

// The tree that dmem gets reads what is there, and can change no limit.
func TestReadOnly(t *testing.T) {
	dir := t.TempDir()
	long := strings.Repeat("drm/0000:05:00.0/vram 1\n", 1000)
	for name, content := range map[string]string{"dmem.current": long, "dmem.max": "", "dmem.peak": long, "other": "o"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	files := newCgroups(dir).files
	for name, want := range map[string]string{"dmem.current": long, "dmem.max": "", "dmem.peak": "", "other": "o"} {
		f, err := files.Open(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := io.ReadAll(f)
		if err := errors.Join(err, f.Close()); err != nil || string(got) != want {
			t.Errorf("%s: %d bytes, %v, want %d", name, len(got), err, len(want))
		}
	}
	for _, name := range []string{"../dmem.max", "/dmem.max", "a/../dmem.max", "", "none/dmem.current", "dmem.max/dmem.max"} {
		if f, err := files.Open(name); err == nil {
			t.Errorf("%q: opened %v", name, f)
		}
	}
	if _, err := files.Open("none/dmem.current"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing directory: %v, want %v", err, fs.ErrNotExist)
	}
	if _, err := files.OpenWrite("dmem.max"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("for writing: %v, want %v", err, fs.ErrPermission)
	}
	if err := dmem.New(files).SetCaps(".", []dmem.Cap{{Region: "drm/0000:05:00.0/vram", Bytes: 1}}); err == nil {
		t.Error("a limit was set")
	}
}
