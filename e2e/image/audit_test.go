package image

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/Project-HAMi/hami-amd/hook"
	hookimage "github.com/Project-HAMi/hami-amd/hook/image"
)

// auditLibrary builds a library that says when it is loaded.
func auditLibrary(t *testing.T, name string) entry {
	t.Helper()
	return compile(t, "testdata/audit.c", "-shared", "-fPIC", fmt.Sprintf("-DNAME=%q", name))
}

// container is an image's files in a directory, with what the plugin mounts.
type container struct {
	dir  string
	env  []string
	user uint32
}

// newContainer installs the library as on a node and puts it where the mount
// of a slice would.
func newContainer(t *testing.T, library entry, o hook.Options, layers ...layer) container {
	t.Helper()
	o.HostPath, o.PodUID, o.Container = filepath.Join(t.TempDir(), "host"), "6a9c1f0e", "train"
	source := filepath.Join(t.TempDir(), "source.so")
	if err := os.WriteFile(source, library.data, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := hook.Install(source, o.HostPath); err != nil {
		t.Fatal(err)
	}
	in, err := hook.Inject([]hook.Device{{LimitMiB: 16384}}, o)
	if err != nil {
		t.Fatal(err)
	}
	c := container{dir: t.TempDir()}
	// Other users than root go through it in one test.
	for dir := c.dir; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	unpack(t, c.dir, layers...)
	for _, v := range in.Env {
		c.env = append(c.env, v.Name+"="+v.Value)
	}
	// The mount of the library, as a copy.
	m := in.Mounts[0]
	unpack(t, c.dir, layer{strings.TrimPrefix(m.ContainerPath, "/"): host(t, m.HostPath)})
	return c
}

// run runs a program of the container and returns all that it prints.
func (c container) run(t *testing.T, argv ...string) string {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = "/", c.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: c.dir, Credential: &syscall.Credential{Uid: c.user, Gid: c.user}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v\n%s", argv, err, out)
	}
	return string(out)
}

const (
	loaded = "audit: hook is loaded\n"
	theirs = "audit: theirs is loaded\n"
	runs   = "app runs\n"
)

// What the loaders do with our environment, beside what hook/image says of the
// same files: the two must agree.
func TestLoadersAgreeWithTheVerdict(t *testing.T) {
	library := auditLibrary(t, "hook")
	req, err := hook.Inspect(strings.NewReader(string(library.data)))
	if err != nil {
		t.Fatal(err)
	}
	debian, program := glibc(t), app(t)
	tests := map[string]struct {
		layers []layer
		argv   []string
		want   string // all that is printed
	}{
		"glibc":              {[]layer{debian, {"app": program}}, []string{"/app"}, loaded + runs},
		"glibc in a script":  {[]layer{debian, {"start": text("#!/bin/sh\necho app runs\n")}}, []string{"/start"}, loaded + runs},
		"glibc, through env": {[]layer{debian, {"app": program}}, []string{"/usr/bin/env", "/app"}, loaded + loaded + runs},
		"musl":               {[]layer{musl(t)}, []string{"/bin/app"}, runs},
		"static":             {[]layer{{"app": app(t, "-static")}}, []string{"/app"}, runs},
		"static-pie":         {[]layer{{"app": app(t, "-static-pie")}}, []string{"/app"}, runs},
		"a static shell":     {[]layer{static(t), {"start": text("#!/bin/sh\necho app runs\n")}}, []string{"/start"}, runs},
		"musl beside glibc":  {[]layer{debian, {"opt/app": musl(t)["bin/app"], "usr/lib/ld-musl-x86_64.so.1": musl(t)["lib/ld-musl-x86_64.so.1"]}}, []string{"/opt/app"}, runs},
		"a shell, then musl": {[]layer{debian, {"opt/app": musl(t)["bin/app"], "usr/lib/ld-musl-x86_64.so.1": musl(t)["lib/ld-musl-x86_64.so.1"]}}, []string{"/bin/sh", "-c", "/opt/app; true"}, loaded + runs},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := newContainer(t, library, hook.Options{}, tt.layers...)
			if got := c.run(t, tt.argv...); got != tt.want {
				t.Errorf("printed %q, want %q", got, tt.want)
			}
			root, err := os.OpenRoot(c.dir)
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			r, err := hookimage.Analyze(root.FS().(fs.ReadLinkFS), hookimage.Config{Entrypoint: tt.argv}, hookimage.Override{})
			if err != nil {
				t.Fatal(err)
			}
			v, detail := r.Verdict(req)
			if loads := strings.HasPrefix(tt.want, loaded); loads != (v == hook.ImageLoads) {
				t.Errorf("the loader loads it: %v; the verdict is %v, %q", loads, v, detail)
			}
		})
	}
}

// A literal LD_AUDIT of the pod keeps working beside ours.
func TestUsersAuditLibraryIsKept(t *testing.T) {
	c := newContainer(t, auditLibrary(t, "hook"), hook.Options{Audit: "/opt/theirs.so"},
		glibc(t), layer{"app": app(t), "opt/theirs.so": auditLibrary(t, "theirs")})
	if got := c.run(t, "/app"); got != theirs+loaded+runs {
		t.Errorf("printed %q, want both libraries", got)
	}
}

// A library that is missing is reported by the loader, and the program runs on
// without a limit: why the file is checked before it is mounted.
func TestMissingLibraryIsIgnoredByTheLoader(t *testing.T) {
	c := newContainer(t, auditLibrary(t, "hook"), hook.Options{}, glibc(t), layer{"app": app(t)})
	if err := os.Remove(filepath.Join(c.dir, hook.ContainerLibrary)); err != nil {
		t.Fatal(err)
	}
	got := c.run(t, "/app")
	if !strings.HasSuffix(got, runs) || !strings.Contains(got, "cannot be loaded as audit interface") || strings.Contains(got, loaded) {
		t.Errorf("printed %q", got)
	}
}

// For a setuid program that another user starts the loader ignores audit
// libraries named by a path; started by its owner it is a program like any
// other. The verdict cannot know the user and goes by the bit.
func TestSetuidProgramIgnoresTheLibrary(t *testing.T) {
	program := app(t)
	program.mode |= fs.ModeSetuid
	c := newContainer(t, auditLibrary(t, "hook"), hook.Options{}, glibc(t), layer{"app": program})
	if got := c.run(t, "/app"); got != loaded+runs {
		t.Errorf("as its owner it printed %q", got)
	}
	c.user = 65534
	if got := c.run(t, "/app"); got != runs {
		t.Errorf("as another user it printed %q", got)
	}
}

// Debian's own files are what the checks say they are.
func TestDebiansFiles(t *testing.T) {
	root, err := os.OpenRoot("/")
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for argv0, want := range map[string]hookimage.Libc{
		"sh": hookimage.GNU, "/bin/busybox": hookimage.Static, "env": hookimage.GNU,
	} {
		r, err := hookimage.Analyze(root.FS().(fs.ReadLinkFS), hookimage.Config{Entrypoint: []string{argv0}}, hookimage.Override{})
		if err != nil || r.Libc != want {
			t.Errorf("%s: %+v, %v; want %s", argv0, r, err, want)
		}
		if want != hookimage.GNU {
			continue
		}
		out, err := exec.Command("getconf", "GNU_LIBC_VERSION").Output()
		if err != nil {
			t.Fatal(err)
		}
		if got := "glibc " + r.Glibc.String(); got != strings.TrimSpace(string(out)) {
			t.Errorf("%s: %s, this machine has %s", argv0, got, out)
		}
	}
}
