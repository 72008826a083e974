package image

import (
	"debug/elf"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/Project-HAMi/hami-amd/hook"
	"github.com/Project-HAMi/hami-amd/hook/elftest"
)

// need is what the published hook needs.
var need = hook.Requirements{Machine: elf.EM_X86_64, Class: elf.ELFCLASS64, Data: elf.ELFDATA2LSB, Glibc: hook.Glibc{Major: 2, Minor: 34}}

// C40: the hook needs {2.2.5, 2.17, 2.34}; versions compare as numbers and one
// that cannot be read does not do.
func TestC40Glibc(t *testing.T) {
	hookNeeds, err := hook.Inspect(strings.NewReader(string(elftest.Hook("GLIBC_2.2.5", "GLIBC_2.17", "GLIBC_2.34"))))
	if err != nil {
		t.Fatal(err)
	}
	if hookNeeds != need {
		t.Fatalf("the hook needs %+v, want %+v", hookNeeds, need)
	}
	tests := map[string]struct {
		libc   *fstest.MapFile
		want   hook.Image
		detail string
	}{
		"2.31":          {libc("GLIBC_2.2.5", "GLIBC_2.31"), hook.ImageCannot, "glibc 2.31 of the image is older than 2.34, which the hook needs"},
		"2.4":           {libc("GLIBC_2.2.5", "GLIBC_2.4"), hook.ImageCannot, "glibc 2.4 of the image is older than 2.34, which the hook needs"},
		"2.34":          {libc("GLIBC_2.2.5", "GLIBC_2.34"), hook.ImageLoads, ""},
		"2.39":          {libc("GLIBC_2.2.5", "GLIBC_2.39"), hook.ImageLoads, ""},
		"unreadable":    {libc("GLIBC_PRIVATE"), hook.ImageUnknown, `"/usr/lib/x86_64-linux-gnu/libc.so.6": neither its symbols nor its text tell a glibc version`},
		"not a library": {text("/* GNU ld script */"), hook.ImageUnknown, `"/usr/lib/x86_64-linux-gnu/libc.so.6": not an ELF file`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r, err := Analyze(with(debian(), fstest.MapFS{"usr/lib/x86_64-linux-gnu/libc.so.6": tt.libc}), run("/bin/sh"), Override{})
			if err != nil {
				t.Fatal(err)
			}
			if v, detail := r.Verdict(hookNeeds); v != tt.want || detail != tt.detail {
				t.Errorf("verdict %v, %q\nwant    %v, %q", v, detail, tt.want, tt.detail)
			}
		})
	}
	t.Run("no libc at all", func(t *testing.T) {
		r, err := Analyze(with(debian(), fstest.MapFS{"usr/lib/x86_64-linux-gnu/libc.so.6": nil}), run("/bin/sh"), Override{})
		if err != nil {
			t.Fatal(err)
		}
		if v, detail := r.Verdict(hookNeeds); v != hook.ImageUnknown || detail != "no libc.so.6 of EM_X86_64 in the image" {
			t.Errorf("verdict %v, %q", v, detail)
		}
	})
}

func TestVerdict(t *testing.T) {
	good := Result{Libc: GNU, Glibc: hook.Glibc{Major: 2, Minor: 36}, Program: "/bin/app", Machine: elf.EM_X86_64, Class: elf.ELFCLASS64, Data: elf.ELFDATA2LSB}
	tests := map[string]struct {
		change func(*Result)
		want   hook.Image
		detail string
	}{
		"glibc":           {func(*Result) {}, hook.ImageLoads, ""},
		"musl":            {func(r *Result) { r.Libc = Musl }, hook.ImageCannot, `"/bin/app" is loaded by musl, which does not implement LD_AUDIT`},
		"static":          {func(r *Result) { r.Libc = Static }, hook.ImageCannot, `"/bin/app" is linked statically, so nothing is loaded into it`},
		"another machine": {func(r *Result) { r.Machine = elf.EM_AARCH64 }, hook.ImageCannot, `"/bin/app" is for EM_AARCH64 ELFCLASS64, the hook for EM_X86_64 ELFCLASS64`},
		"the x32 ABI":     {func(r *Result) { r.Class = elf.ELFCLASS32 }, hook.ImageCannot, `"/bin/app" is for EM_X86_64 ELFCLASS32, the hook for EM_X86_64 ELFCLASS64`},
		"setuid":          {func(r *Result) { r.Secure = true }, hook.ImageCannot, `"/bin/app" is setuid or setgid, for which the loader ignores LD_AUDIT`},
		"unknown":         {func(r *Result) { r.Libc, r.Detail = Unknown, "why" }, hook.ImageUnknown, "why"},
		"no answer":       {func(r *Result) { *r = Result{} }, hook.ImageUnknown, ""},
		"no version":      {func(r *Result) { r.Glibc, r.Detail = hook.Glibc{}, "why" }, hook.ImageUnknown, "why"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := good
			tt.change(&r)
			if v, detail := r.Verdict(need); v != tt.want || detail != tt.detail {
				t.Errorf("verdict %v, %q\nwant    %v, %q", v, detail, tt.want, tt.detail)
			}
		})
	}
}

// A setuid program is seen as such by its mode.
func TestAnalyzeSetuid(t *testing.T) {
	for mode, want := range map[string]bool{"setuid": true, "setgid": true, "plain": false} {
		f := program(glibcLoader)
		f.Mode |= map[string]fs.FileMode{"setuid": fs.ModeSetuid, "setgid": fs.ModeSetgid}[mode]
		r, err := Analyze(with(debian(), fstest.MapFS{"app": f}), run("/app"), Override{})
		if err != nil || r.Secure != want {
			t.Errorf("%s: secure %v, %v", mode, r.Secure, err)
		}
	}
}

func ExampleAnalyze() {
	image := fstest.MapFS{
		"lib/ld-musl-x86_64.so.1": {Mode: 0o755, Data: elftest.Build(elftest.Options{Dynamic: true})},
		"bin/busybox":             {Mode: 0o755, Data: elftest.Build(elftest.Options{Interp: "/lib/ld-musl-x86_64.so.1"})},
		"bin/sh":                  {Mode: fs.ModeSymlink, Data: []byte("/bin/busybox")},
	}
	r, err := Analyze(image, Config{Cmd: []string{"/bin/sh"}}, Override{})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, detail := r.Verdict(need)
	fmt.Println(r.Libc, r.Program)
	fmt.Println(detail)
	// Output:
	// musl /bin/busybox
	// "/bin/busybox" is loaded by musl, which does not implement LD_AUDIT
}
