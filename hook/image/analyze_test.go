package image

import (
	"debug/elf"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/Project-HAMi/hami-amd/hook"
	"github.com/Project-HAMi/hami-amd/hook/elftest"
	"github.com/google/go-cmp/cmp"
)

const (
	glibcLoader = "/lib64/ld-linux-x86-64.so.2"
	muslLoader  = "/lib/ld-musl-x86_64.so.1"
)

func program(loader string) *fstest.MapFile {
	return &fstest.MapFile{Mode: 0o755, Data: elftest.Build(elftest.Options{Interp: loader, Needed: []string{"libc.so.6"}})}
}

func libc(versions ...string) *fstest.MapFile {
	return &fstest.MapFile{Mode: 0o755, Data: elftest.Build(elftest.Options{Versions: versions})}
}

func text(s string) *fstest.MapFile { return &fstest.MapFile{Mode: 0o755, Data: []byte(s)} }
func link(to string) *fstest.MapFile {
	return &fstest.MapFile{Mode: fs.ModeSymlink | 0o777, Data: []byte(to)}
}
func static() *fstest.MapFile {
	return &fstest.MapFile{Mode: 0o755, Data: elftest.Build(elftest.Options{Type: elf.ET_EXEC})}
}
func run(argv ...string) Config         { return Config{Entrypoint: argv} }
func glibc(major, minor int) hook.Glibc { return hook.Glibc{Major: major, Minor: minor} }

// debian is an image after the usr merge: /lib, /lib64 and /bin are links.
func debian() fstest.MapFS {
	return fstest.MapFS{
		"bin":                            link("usr/bin"),
		"lib":                            link("usr/lib"),
		"lib64":                          link("usr/lib64"),
		"usr/lib64/ld-linux-x86-64.so.2": link("/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"),
		"usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2": {Mode: 0o755, Data: elftest.Build(elftest.Options{Dynamic: true})},
		"usr/lib/x86_64-linux-gnu/libc.so.6":            libc("GLIBC_2.2.5", "GLIBC_2.9", "GLIBC_2.36", "GLIBC_ABI_DT_RELR", "GLIBC_PRIVATE"),
		"usr/bin/dash":                                  program(glibcLoader),
		"usr/bin/sh":                                    link("dash"),
		"usr/bin/env":                                   program(glibcLoader),
		"usr/bin/python3":                               link("/etc/alternatives/python3"),
		"etc/alternatives/python3":                      link("/usr/bin/python3.11"),
		"usr/bin/python3.11":                            program(glibcLoader),
		"usr/local/bin/start.sh":                        text("#!/bin/sh -e\nexec python3 train.py\n"),
		"usr/local/bin/train":                           text("#!/usr/bin/env python3\nimport torch\n"),
	}
}

func alpine() fstest.MapFS {
	return fstest.MapFS{
		"lib/ld-musl-x86_64.so.1":   {Mode: 0o755, Data: elftest.Build(elftest.Options{Dynamic: true})},
		"lib/libc.musl-x86_64.so.1": link("ld-musl-x86_64.so.1"),
		"bin/busybox":               program(muslLoader),
		"bin/sh":                    link("/bin/busybox"),
	}
}

// with is a copy of an image with other files.
func with(base fstest.MapFS, files fstest.MapFS) fstest.MapFS {
	all := fstest.MapFS{}
	for _, m := range []fstest.MapFS{base, files} {
		for name, f := range m {
			all[name] = f
			if f == nil {
				delete(all, name)
			}
		}
	}
	return all
}

func TestAnalyze(t *testing.T) {
	x86 := Result{Machine: elf.EM_X86_64, Class: elf.ELFCLASS64, Data: elf.ELFDATA2LSB}
	gnu := func(program string, v hook.Glibc) Result {
		r := x86
		r.Libc, r.Glibc, r.Program, r.Loader = GNU, v, program, glibcLoader
		return r
	}
	other := func(l Libc, program, loader string) Result {
		r := x86
		r.Libc, r.Program, r.Loader = l, program, loader
		return r
	}
	tests := map[string]struct {
		files    fstest.MapFS
		config   Config
		override Override
		want     Result
	}{
		"glibc":                           {debian(), run("/bin/sh"), Override{}, gnu("/usr/bin/dash", glibc(2, 36))},
		"glibc through PATH":              {debian(), run("python3"), Override{}, gnu("/usr/bin/python3.11", glibc(2, 36))},
		"the image's PATH":                {with(debian(), fstest.MapFS{"opt/x/python3": program(muslLoader), "usr/lib/ld-musl-x86_64.so.1": static()}), Config{Entrypoint: []string{"python3"}, Env: []string{"A=b", "PATH=/opt/x:/bin"}}, Override{}, other(Musl, "/opt/x/python3", muslLoader)},
		"the pod's PATH outranks":         {debian(), Config{Entrypoint: []string{"python3"}, Env: []string{"PATH=/opt/x"}}, Override{Path: "/usr/bin"}, gnu("/usr/bin/python3.11", glibc(2, 36))},
		"a script":                        {debian(), run("start.sh"), Override{}, gnu("/usr/bin/dash", glibc(2, 36))},
		"a script through env":            {debian(), run("/usr/local/bin/train"), Override{}, gnu("/usr/bin/python3.11", glibc(2, 36))},
		"a script through env -S":         {with(debian(), fstest.MapFS{"t": text("#!/usr/bin/env -S A=b python3 -u\n")}), run("/t"), Override{}, gnu("/usr/bin/python3.11", glibc(2, 36))},
		"env as the command":              {debian(), run("env", "A=b", "python3"), Override{}, gnu("/usr/bin/python3.11", glibc(2, 36))},
		"env alone":                       {debian(), run("env"), Override{}, gnu("/usr/bin/env", glibc(2, 36))},
		"a script of a script":            {with(debian(), fstest.MapFS{"t": text("#! /usr/local/bin/start.sh  -x \n")}), run("/t"), Override{}, gnu("/usr/bin/dash", glibc(2, 36))},
		"the image's arguments only":      {debian(), Config{Cmd: []string{"python3", "-c", "1"}}, Override{}, gnu("/usr/bin/python3.11", glibc(2, 36))},
		"the pod's command":               {debian(), run("/nowhere"), Override{Command: []string{"/bin/sh"}, Args: []string{"-c", "x"}}, gnu("/usr/bin/dash", glibc(2, 36))},
		"the pod's arguments":             {debian(), Config{Cmd: []string{"/nowhere"}}, Override{Args: []string{"python3"}}, gnu("/usr/bin/python3.11", glibc(2, 36))},
		"relative to the working dir":     {debian(), Config{Entrypoint: []string{"./dash"}, WorkingDir: "/usr/bin"}, Override{}, gnu("/usr/bin/dash", glibc(2, 36))},
		"relative to the pod's":           {debian(), Config{Entrypoint: []string{"bin/dash"}, WorkingDir: "/nowhere"}, Override{WorkingDir: "/usr"}, gnu("/usr/bin/dash", glibc(2, 36))},
		"an old layout":                   {with(debian(), fstest.MapFS{"usr/lib/x86_64-linux-gnu/libc.so.6": link("libc-2.4.so"), "usr/lib/x86_64-linux-gnu/libc-2.4.so": libc("GLIBC_2.2.5", "GLIBC_2.4")}), run("/bin/sh"), Override{}, gnu("/usr/bin/dash", glibc(2, 4))},
		"a libc that only its text tells": {with(debian(), fstest.MapFS{"usr/lib/x86_64-linux-gnu/libc.so.6": {Data: elftest.Build(elftest.Options{Payload: []byte("x GNU C Library\x00 no GNU C Library (Debian GLIBC 2.31-13+deb11u11) stable release version 2.31.\nCopyright")})}}), run("/bin/sh"), Override{}, gnu("/usr/bin/dash", glibc(2, 31))},
		"a libc that is not beside":       {with(debian(), fstest.MapFS{"usr/lib64/ld-linux-x86-64.so.2": static()}), run("/bin/sh"), Override{}, gnu("/usr/bin/dash", glibc(2, 36))},
		"a 32-bit libc beside":            {with(debian(), fstest.MapFS{"usr/lib64/ld-linux-x86-64.so.2": static(), "usr/lib64/libc.so.6": {Data: elftest.Build(elftest.Options{Machine: elf.EM_386, Versions: []string{"GLIBC_2.1"}})}}), run("/bin/sh"), Override{}, gnu("/usr/bin/dash", glibc(2, 36))},
		"Nix": {fstest.MapFS{"nix/store/g/lib/ld-linux-x86-64.so.2": static(), "nix/store/g/lib/libc.so.6": libc("GLIBC_2.38"), "bin/p": program("/nix/store/g/lib/ld-linux-x86-64.so.2")}, run("/bin/p"), Override{}, func() Result {
			r := gnu("/bin/p", glibc(2, 38))
			r.Loader = "/nix/store/g/lib/ld-linux-x86-64.so.2"
			return r
		}()},
		"musl":                             {alpine(), run("/bin/sh"), Override{}, other(Musl, "/bin/busybox", muslLoader)},
		"musl under glibc's loader's name": {with(alpine(), fstest.MapFS{"lib64/ld-linux-x86-64.so.2": link("../lib/ld-musl-x86_64.so.1"), "bin/p": program(glibcLoader)}), run("/bin/p"), Override{}, other(Musl, "/bin/p", glibcLoader)},
		"musl under glibc's libc's name":   {with(alpine(), fstest.MapFS{"lib64/ld-linux-x86-64.so.2": static(), "lib/libc.so.6": link("libc.musl-x86_64.so.1"), "bin/p": program(glibcLoader)}), run("/bin/p"), Override{}, other(Musl, "/bin/p", glibcLoader)},
		"static":                           {fstest.MapFS{"app": static()}, run("/app"), Override{}, other(Static, "/app", "")},
		"static-pie":                       {fstest.MapFS{"app": {Mode: 0o755, Data: elftest.Build(elftest.Options{Dynamic: true})}}, run("/app"), Override{}, other(Static, "/app", "")},
		"a volume elsewhere":               {debian(), run("/bin/sh"), Override{Mounts: []string{"/data", "/usr/bi", "/usr/binx/"}}, gnu("/usr/bin/dash", glibc(2, 36))},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Analyze(tt.files, tt.config, tt.override)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
		})
	}
}

// In an image that has both, the interpreter of the program that runs decides.
func TestAnalyzeBothLibraries(t *testing.T) {
	files := with(debian(), fstest.MapFS{"usr/lib/ld-musl-x86_64.so.1": static(), "m": program(muslLoader)})
	for argv0, want := range map[string]Libc{"/m": Musl, "/bin/sh": GNU} {
		got, err := Analyze(files, run(argv0), Override{})
		if err != nil || got.Libc != want {
			t.Errorf("%s: %s, %v; want %s", argv0, got.Libc, err, want)
		}
	}
}

func TestAnalyzeUnknown(t *testing.T) {
	deep := fstest.MapFS{}
	for i := range 42 {
		deep["l"+strings.Repeat("x", i)] = link("l" + strings.Repeat("x", i+1))
	}
	deep["l"+strings.Repeat("x", 42)] = static()
	loop := fstest.MapFS{
		"a": text("#!/b\n"), "b": text("#!/a\n"),
		"e": text("#!/usr/bin/env e\n"), "usr/bin/env": static(),
	}
	broken := elftest.Build(elftest.Options{Interp: glibcLoader})
	broken[64+32] = 0 // the interpreter's size
	tests := map[string]struct {
		files    fstest.MapFS
		config   Config
		override Override
		want     string
	}{
		"no command":                   {debian(), Config{}, Override{}, "no command: neither the image nor the pod has one"},
		"an empty command":             {debian(), run(""), Override{}, "no command: neither the image nor the pod has one"},
		"a variable":                   {debian(), run("x"), Override{Command: []string{"$(APP)"}}, `command "$(APP)" refers to a variable`},
		"a program that is not there":  {debian(), run("/bin/none"), Override{}, "file does not exist"},
		"no program of that name":      {debian(), run("none"), Override{}, `program "none" is not in the image's PATH`},
		"a file that is no program":    {with(debian(), fstest.MapFS{"usr/bin/x": {Mode: 0o644, Data: []byte("x")}}), run("x"), Override{}, `program "x" is not in the image's PATH`},
		"below a file":                 {debian(), run("/usr/bin/dash/x"), Override{}, "file does not exist"},
		"a directory":                  {debian(), run("/usr/bin"), Override{}, `"/usr/bin": not a regular file`},
		"a device":                     {fstest.MapFS{"d": {Mode: fs.ModeDevice | fs.ModeCharDevice | 0o777}}, run("/d"), Override{}, `"/d": not a regular file`},
		"a pipe":                       {fstest.MapFS{"d": {Mode: fs.ModeNamedPipe | 0o777}}, run("/d"), Override{}, `"/d": not a regular file`},
		"the root":                     {debian(), run("/.."), Override{}, `"/..": not a regular file`},
		"a text":                       {with(debian(), fstest.MapFS{"t": text("echo hello\n")}), run("/t"), Override{}, `"/t": not an ELF file`},
		"an empty file":                {fstest.MapFS{"t": text("")}, run("/t"), Override{}, `"/t": not an ELF file`},
		"an empty interpreter line":    {fstest.MapFS{"t": text("#!\n")}, run("/t"), Override{}, `"/t": not an ELF file`},
		"an object file":               {fstest.MapFS{"t": {Data: elftest.Build(elftest.Options{Type: elf.ET_REL})}}, run("/t"), Override{}, `"/t": an ELF file of type ET_REL, not a program`},
		"a broken interpreter":         {fstest.MapFS{"t": {Data: broken}}, run("/t"), Override{}, `"/t": interpreter: want 1 to 4096 bytes, have 0`},
		"a relative interpreter":       {fstest.MapFS{"t": program("ld-linux-x86-64.so.2")}, run("/t"), Override{}, `"ld-linux-x86-64.so.2": want an absolute path of at most 4096 bytes`},
		"no loader":                    {fstest.MapFS{"t": program(glibcLoader)}, run("/t"), Override{}, `"/t": its loader "/lib64/ld-linux-x86-64.so.2" is not in the image`},
		"another loader":               {fstest.MapFS{"t": program("/lib/ld-uClibc.so.0"), "lib/ld-uClibc.so.0": static()}, run("/t"), Override{}, `"/t": its loader "/lib/ld-uClibc.so.0" is of no known C library`},
		"scripts that go round":        {loop, run("/a"), Override{}, `"/a": more than 5 scripts that interpret each other`},
		"a script that is its own env": {loop, Config{Entrypoint: []string{"/e"}, Env: []string{"PATH=/"}}, Override{}, `"/e": more than 5 scripts that interpret each other`},
		"env that clears":              {debian(), run("env", "-i", "python3"), Override{}, `env is called with the option "-i"`},
		"a link to itself":             {fstest.MapFS{"l": link("l")}, run("/l"), Override{}, `"/l": more than 40 symbolic links`},
		"too many links":               {deep, run("/l"), Override{}, `"/l": more than 40 symbolic links`},
		"a link that grows":            {fstest.MapFS{"l": link("l" + strings.Repeat("/a", 2000))}, run("/l/" + strings.Repeat("b", 200)), Override{}, "symbolic links make a path of more than 4096 bytes"},
		"a long path":                  {debian(), run("/" + strings.Repeat("a/", 3000)), Override{}, "want an absolute path of at most 4096 bytes"},
		"a long name":                  {debian(), run("/" + strings.Repeat("a", 256)), Override{}, "file does not exist"},
		"a name that is no text":       {debian(), run("/\xff"), Override{}, `"/\xff": not a valid path`},
		"a PATH of many":               {debian(), run("x"), Override{Path: strings.Repeat(":", 64)}, "PATH: want at most 64 directories, have 65"},
		"the program on a volume":      {debian(), run("/usr/local/bin/train"), Override{Mounts: []string{"/usr/local/"}}, `"/usr/local" is on the volume at "/usr/local"`},
		"the libc on a volume":         {debian(), run("/bin/sh"), Override{Mounts: []string{"/usr/lib/x86_64-linux-gnu/libc.so.6"}}, `"/usr/lib/x86_64-linux-gnu/libc.so.6" is on the volume at`},
		"a link on a volume":           {with(debian(), fstest.MapFS{"vol/p": link("/bin/sh")}), run("/vol/p"), Override{Mounts: []string{"/vol"}}, `"/vol" is on the volume at "/vol"`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Analyze(tt.files, tt.config, tt.override)
			if err != nil {
				t.Fatal(err)
			}
			if got.Libc != Unknown && got.Glibc != (hook.Glibc{}) || !strings.Contains(got.Detail, tt.want) {
				t.Errorf("got %+v\nwant %q", got, tt.want)
			}
			if v, detail := got.Verdict(need); v != hook.ImageUnknown || detail != got.Detail {
				t.Errorf("verdict %v, %q", v, detail)
			}
		})
	}
}

// Links that point out of the image lead back into it, as they do for the
// container, and never to the node's own files.
func TestAnalyzeStaysInTheImage(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"img/bin", "img/usr/bin", "outside"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, data := range map[string][]byte{
		"outside/app":     elftest.Build(elftest.Options{Interp: muslLoader}),
		"img/usr/bin/app": elftest.Build(elftest.Options{}),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{
		"img/bin/abs":   "/usr/bin/app",
		"img/bin/up":    "../../../../../usr/bin/app",
		"img/bin/out":   filepath.Join(dir, "outside/app"),
		"img/bin/outup": "../../outside/app",
	} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(filepath.Join(dir, "img"))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for name, want := range map[string]Libc{"/bin/abs": Static, "/bin/up": Static, "/bin/out": Unknown, "/bin/outup": Unknown} {
		got, err := Analyze(root.FS().(fs.ReadLinkFS), run(name), Override{})
		if err != nil || got.Libc != want {
			t.Errorf("%s: %+v, %v; want %s", name, got, err, want)
		}
	}
}

// brokenFS fails to read anything.
type brokenFS struct{ fstest.MapFS }

var errDisk = errors.New("input/output error")

func (brokenFS) Lstat(string) (fs.FileInfo, error) { return nil, errDisk }

// A failure to read is not an answer about the image.
func TestAnalyzeFails(t *testing.T) {
	got, err := Analyze(brokenFS{debian()}, run("/bin/sh"), Override{})
	if !errors.Is(err, errDisk) || got != (Result{}) {
		t.Errorf("got %+v, %v", got, err)
	}
}

// Neither the configuration nor the override is written to.
func TestAnalyzeKeepsItsInput(t *testing.T) {
	backing := []string{"env", "spare", "spare"}
	c := Config{Entrypoint: backing[:1]}
	if _, err := Analyze(debian(), c, Override{Args: []string{"python3"}}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"env", "spare", "spare"}, backing); diff != "" {
		t.Errorf("entry point (-want +got):\n%s", diff)
	}
}

func FuzzAnalyze(f *testing.F) {
	f.Add([]byte("#!/usr/bin/env python3\n"), "/lib/libc.so.6", []byte{})
	f.Add(elftest.Build(elftest.Options{Interp: glibcLoader}), "loop", elftest.Build(elftest.Options{Versions: []string{"GLIBC_2.36"}}))
	f.Fuzz(func(t *testing.T, app []byte, target string, lib []byte) {
		files := fstest.MapFS{
			"app":                        {Mode: 0o755, Data: app},
			"lib64/ld-linux-x86-64.so.2": {Mode: 0o755, Data: lib},
			"lib64/libc.so.6":            {Mode: 0o755, Data: lib},
			"loop":                       link(target),
			"usr/bin/env":                program(glibcLoader),
		}
		for _, argv0 := range []string{"/app", "/loop"} {
			got, err := Analyze(files, run(argv0), Override{})
			if err != nil {
				t.Fatalf("error %v", err)
			}
			switch {
			case got.Libc == "":
				t.Errorf("no answer: %+v", got)
			case got.Libc == Unknown && got.Detail == "":
				t.Errorf("unknown without a reason: %+v", got)
			case got.Libc != Unknown && got.Program == "":
				t.Errorf("an answer without a program: %+v", got)
			}
		}
	})
}
