package hook

import (
	"bytes"
	"debug/elf"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/Project-HAMi/hami-amd/hook/elftest"
)

// realHook needs what the published library needs.
func realHook() []byte { return elftest.Hook("GLIBC_2.2.5", "GLIBC_2.17", "GLIBC_2.34") }

// C42: what is not a file with content cannot be mounted.
func TestC42Check(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	for _, err := range []error{
		os.WriteFile(path("ok"), realHook(), 0o644),
		os.WriteFile(path("zero"), nil, 0o644),
		os.Mkdir(path("dir"), 0o755),
		os.Symlink(path("ok"), path("link")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	tests := map[string]struct{ file, want string }{
		"present":         {"ok", ""},
		"absent":          {"none", "no such file"},
		"zero bytes":      {"zero", "want a library, have an empty file"},
		"a directory":     {"dir", "want a regular file, have a directory"},
		"a symbolic link": {"link", "want a regular file, have a symbolic link"},
		"a device":        {"../../../dev/null", "memory hook is not installed"},
		"below a file":    {"ok/none", "not a directory"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := Check(path(tt.file))
			if tt.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			// The slice starts without the hook where dmem caps it, else not.
			for caps, want := range map[bool]Verdict{true: LeaveOut, false: Refuse} {
				if v, _ := Decide(Case{Slice: true, HookFile: err == nil, DmemCaps: caps}); v != want {
					t.Errorf("dmem caps %v: %v, want %v", caps, v, want)
				}
			}
		})
	}
}

func TestInspect(t *testing.T) {
	got, err := Inspect(bytes.NewReader(realHook()))
	if err != nil {
		t.Fatal(err)
	}
	want := Requirements{elf.EM_X86_64, elf.ELFCLASS64, elf.ELFDATA2LSB, Glibc{2, 34, 0}}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestInspectRefuses(t *testing.T) {
	big := realHook()
	big[elf.EI_DATA] = byte(elf.ELFDATA2MSB)
	tests := map[string]struct {
		data []byte
		want string
	}{
		"empty":              {nil, "inspect hook: not an ELF file"},
		"a script":           {[]byte("#!/bin/sh\n"), "inspect hook: not an ELF file"},
		"a program":          {elftest.Build(elftest.Options{Type: elf.ET_EXEC, Dynamic: true}), "inspect hook: want a shared library of a 64-bit little-endian machine, have ET_EXEC of EM_X86_64"},
		"no dynamic section": {elftest.Build(elftest.Options{}), "inspect hook: want a shared library of a 64-bit little-endian machine, have ET_DYN of EM_X86_64"},
		"another byte order": {big, "inspect hook: want a shared library"},
		"a broken file":      {realHook()[:200], "inspect hook: dynamic section"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Inspect(bytes.NewReader(tt.data))
			if got != (Requirements{}) || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %+v, %v; want %q", got, err, tt.want)
			}
		})
	}
}

// C40: a hook that needs GLIBC_PRIVATE works with one build of glibc only and
// is refused itself.
func TestC40PrivateHookIsRefused(t *testing.T) {
	data := elftest.Hook("GLIBC_2.34", "GLIBC_PRIVATE")
	if _, err := Inspect(bytes.NewReader(data)); !errors.Is(err, ErrPrivate) ||
		err.Error() != `inspect hook: needs GLIBC_PRIVATE of "libc.so.6"` {
		t.Errorf("got %v", err)
	}
	dir := t.TempDir()
	source := filepath.Join(dir, "private.so")
	if err := os.WriteFile(source, data, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := InspectFile(source); !errors.Is(err, ErrPrivate) {
		t.Errorf("InspectFile: %v", err)
	}
	if _, err := Install(source, dir); !errors.Is(err, ErrPrivate) {
		t.Errorf("Install: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "vgpu")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a refused install left %v", err)
	}
}
