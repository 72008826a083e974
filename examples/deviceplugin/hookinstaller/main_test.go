package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/Project-HAMi/hami-amd/hook/elftest"
)

// library writes a hook library and returns its path and content.
func library(t *testing.T) (string, []byte) {
	t.Helper()
	data := elftest.Build(elftest.Options{
		Needed: []string{"libc.so.6"},
		Needs:  []elftest.Need{{Library: "libc.so.6", Versions: []string{"GLIBC_2.34"}}},
	})
	name := filepath.Join(t.TempDir(), "libamvgpu.so")
	if err := os.WriteFile(name, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return name, data
}

func TestInstallsOnceAndAgain(t *testing.T) {
	source, data := library(t)
	host := t.TempDir()
	target := filepath.Join(host, "vgpu", "libamvgpu.so")
	for _, want := range []string{"installed " + target + "\n", target + " is up to date\n"} {
		var stdout, stderr bytes.Buffer
		code := run([]string{"-source", source, "-host_hook_path", host}, &stdout, &stderr)
		if code != 0 || stdout.String() != want || stderr.Len() > 0 {
			t.Errorf("exit %d, %q, %q; want 0 and %q", code, stdout.String(), stderr.String(), want)
		}
	}
	got, err := os.ReadFile(target)
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("the host has %d bytes, %v; want the %d of the source", len(got), err, len(data))
	}
}

func TestRefusals(t *testing.T) {
	source, _ := library(t)
	text := filepath.Join(t.TempDir(), "libamvgpu.so")
	if err := os.WriteFile(text, []byte("not a library"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		args []string
		code int
		want string // in the last line of standard error
	}{
		"a source that is not there":    {[]string{"-source", source + ".gone"}, 1, "libamvgpu.so.gone"},
		"a source that is no library":   {[]string{"-source", text}, 1, text},
		"a relative host path":          {[]string{"-source", source, "-host_hook_path", "usr/local"}, 1, `"usr/local"`},
		"an argument that is no flag":   {[]string{"/usr/local/vgpu"}, 2, `want flags only, found "/usr/local/vgpu"`},
		"a flag that does not exist":    {[]string{"-destination", "/usr/local"}, 2, "vgpu/libamvgpu.so"}, // the usage
		"a flag without what it stands": {[]string{"-source"}, 2, "vgpu/libamvgpu.so"},
	} {
		t.Run(name, func(t *testing.T) {
			host := t.TempDir()
			args := test.args
			if test.code == 1 && len(args) == 2 {
				args = append(args, "-host_hook_path", host)
			}
			var stdout, stderr bytes.Buffer
			if code := run(args, &stdout, &stderr); code != test.code {
				t.Errorf("exit %d, want %d", code, test.code)
			}
			if stdout.Len() > 0 || !strings.Contains(stderr.String(), test.want) {
				t.Errorf("standard output %q, standard error %q; want %q in it", stdout.String(), stderr.String(), test.want)
			}
			if test.code == 1 && strings.Count(stderr.String(), "\n") != 1 {
				t.Errorf("want one line, got %q", stderr.String())
			}
			err := filepath.WalkDir(host, func(path string, d fs.DirEntry, err error) error {
				if err == nil && !d.IsDir() {
					t.Errorf("left behind: %s", path)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

func TestHelpExitsCleanly(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run([]string{"-h"}, &stdout, &stderr); code != 0 || !strings.Contains(stderr.String(), "-host_hook_path") {
		t.Errorf("exit %d, %q; want 0 and the usage", code, stderr.String())
	}
}
