package plugin

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/hook"
	"github.com/Project-HAMi/hami-amd/hook/elftest"
	"github.com/Project-HAMi/hami-amd/hook/image"
	"github.com/Project-HAMi/hami-amd/partition"
)

// imageStore has one image of each kind, by the last part of its name, and
// counts what is asked of it.
type imageStore struct {
	mu    sync.Mutex
	looks int
	pulls []string
	err   error
}

const glibcLoader = "/lib64/ld-linux-x86-64.so.2"

func (s *imageStore) files(name string) (fstest.MapFS, bool) {
	program := func(interp string) *fstest.MapFile {
		return &fstest.MapFile{Mode: 0o755, Data: elftest.Build(elftest.Options{Interp: interp})}
	}
	libc := func(versions ...string) *fstest.MapFile {
		return &fstest.MapFile{Mode: 0o755, Data: elftest.Build(elftest.Options{Versions: versions})}
	}
	switch filepath.Base(strings.TrimSuffix(name, ":latest")) {
	case "glibc":
		return fstest.MapFS{"app": program(glibcLoader), glibcLoader[1:]: libc(), "lib64/libc.so.6": libc("GLIBC_2.2.5", "GLIBC_2.34", "GLIBC_2.39")}, true
	case "old-glibc":
		return fstest.MapFS{"app": program(glibcLoader), glibcLoader[1:]: libc(), "lib64/libc.so.6": libc("GLIBC_2.2.5", "GLIBC_2.31")}, true
	case "musl":
		return fstest.MapFS{"app": program("/lib/ld-musl-x86_64.so.1"), "lib/ld-musl-x86_64.so.1": libc()}, true
	case "static":
		return fstest.MapFS{"app": program("")}, true
	}
	return nil, false
}

func (s *imageStore) Resolve(_ context.Context, name string) (image.Image, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks++
	if s.err != nil {
		return image.Image{}, s.err
	}
	if _, ok := s.files(name); !ok {
		return image.Image{}, fmt.Errorf("%w: %q", image.ErrNotOnNode, name)
	}
	return image.Image{Name: name, Digest: "sha256:" + name}, nil
}

func (s *imageStore) Open(_ context.Context, img image.Image, fn func(image.Config, fs.ReadLinkFS) error) error {
	files, _ := s.files(img.Name)
	return fn(image.Config{Entrypoint: []string{"/app"}}, files)
}

func (s *imageStore) Pull(_ context.Context, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pulls = append(s.pulls, name)
	return nil
}

// failClosed is a rig whose node refuses what the hook cannot limit.
func failClosed(t *testing.T, snap *snapshot) (*rig, *imageStore) {
	r := newRig(t, snap, func(c *Config) { c.MuslFailClosed = true })
	store := &imageStore{}
	gate, err := newHookGate(r.cfg, Deps{Images: store, Now: r.time})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := gate.close(); err != nil {
			t.Error(err)
		}
	})
	gate.host = elf.EM_X86_64
	r.gate = gate
	library := filepath.Join(r.cfg.HookPath, "vgpu", hook.Library)
	if err := os.WriteFile(library, elftest.Hook("GLIBC_2.2.5", "GLIBC_2.34"), 0o644); err != nil {
		t.Fatal(err)
	}
	return r, store
}

func TestHookAndImages(t *testing.T) {
	snap := snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{})
	for name, tt := range map[string]struct {
		image  string
		dmem   bool
		whole  bool
		noHook bool
		want   error // nil: the pod starts
		loaded bool
	}{
		"glibc":                      {image: "glibc", loaded: true},
		"glibc and dmem":             {image: "glibc", dmem: true, loaded: true},
		"old glibc":                  {image: "old-glibc", want: hook.ErrImageCannot},
		"old glibc, dmem caps it":    {image: "old-glibc", dmem: true},
		"musl":                       {image: "musl", want: hook.ErrImageCannot},
		"musl, dmem caps it":         {image: "musl", dmem: true},
		"musl, whole GPU":            {image: "musl", whole: true},
		"static":                     {image: "static", want: hook.ErrImageCannot},
		"not pulled yet":             {image: "elsewhere", want: hook.ErrImageNotOnNode},
		"not pulled yet, whole GPU":  {image: "elsewhere", whole: true},
		"not pulled yet, and dmem":   {image: "elsewhere", dmem: true, want: hook.ErrImageNotOnNode},
		"glibc, no hook":             {image: "glibc", noHook: true, want: hook.ErrHookMissing},
		"glibc, no hook, dmem capps": {image: "glibc", noHook: true, dmem: true},
	} {
		t.Run(name, func(t *testing.T) {
			r, store := failClosed(t, snap)
			if tt.dmem {
				r.withDmem()
			}
			if tt.noHook {
				if err := os.Remove(filepath.Join(r.cfg.HookPath, "vgpu", hook.Library)); err != nil {
					t.Fatal(err)
				}
			}
			grant := r.grant(0, 16384, 76)
			if tt.whole {
				grant = r.whole(0)
			}
			p := r.pod("p", []annotations.Grant{grant})
			p.Spec.Containers[0].Image = "registry.example/" + tt.image
			r.bind(p)
			answer, err := r.allocate(r.share(0, 0))
			if !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) {
				t.Fatalf("Allocate = %v, want %v", err, tt.want)
			}
			if tt.whole && store.looks > 0 {
				t.Error("the image of a whole GPU was looked at")
			}
			if err != nil {
				if r.lockText() != "" {
					t.Error("the lock was left behind")
				}
				return
			}
			if _, loaded := answer.Envs[hook.AuditEnv]; loaded != tt.loaded || len(answer.Mounts) > 0 != tt.loaded {
				t.Errorf("hook loaded %v, mounts %v, want %v", loaded, answer.Mounts, tt.loaded)
			}
			if limit := answer.Envs[hook.LimitEnv]; limit != "16384m" && !tt.whole {
				t.Errorf("limit %q, want 16384m whether the hook is loaded or not", limit)
			}
		})
	}
}

// TestImageOfEveryContainerIsPulled: a pod is refused at its first container,
// and the images of all are on their way.
func TestImageOfEveryContainerIsPulled(t *testing.T) {
	r, store := failClosed(t, snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{}))
	slice := []annotations.Grant{r.grant(0, 16384, 38)}
	p := r.pod("p", slice, slice, slice)
	for i, name := range []string{"one", "glibc", "two"} {
		p.Spec.Containers[i].Image = "registry.example/" + name
	}
	r.bind(p)
	if _, err := r.allocate(r.share(0, 0)); !errors.Is(err, hook.ErrImageNotOnNode) || !strings.Contains(err.Error(), `"c0"`) {
		t.Errorf("Allocate = %v, want %v about c0", err, hook.ErrImageNotOnNode)
	}
	eventually(t, "both images are pulled", func() bool {
		store.mu.Lock()
		defer store.mu.Unlock()
		return len(store.pulls) == 2
	})
}

func TestImagesAreNotLookedAtUnlessNeeded(t *testing.T) {
	r := newRig(t, snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{}))
	store := &imageStore{err: errors.New("containerd is away")}
	gate, err := newHookGate(r.cfg, Deps{Images: store})
	if err != nil {
		t.Fatal(err)
	}
	gate.host = elf.EM_X86_64
	r.gate = gate
	r.bind(r.pod("p", []annotations.Grant{r.grant(0, 16384, 38)}))
	r.mustAllocate(r.share(0, 0))
	if store.looks > 0 {
		t.Error("an image was looked at although nothing depends on it")
	}
}

func TestContainerdThatIsAway(t *testing.T) {
	r, store := failClosed(t, snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{}))
	store.err = errors.New("containerd is away")
	r.bind(r.pod("p", []annotations.Grant{r.grant(0, 16384, 38)}))
	if _, err := r.allocate(r.share(0, 0)); !errors.Is(err, hook.ErrImageCannot) || !strings.Contains(err.Error(), "containerd is away") {
		t.Errorf("Allocate = %v, want a refusal that says why", err)
	}
	r.withDmem()
	r.bind(r.pod("q", []annotations.Grant{r.grant(0, 16384, 38)}))
	r.mustAllocate(r.share(0, 0))
}

// TestHookIsReadAgainWhenReplaced: what it needs may have changed with it.
func TestHookIsReadAgainWhenReplaced(t *testing.T) {
	r, _ := failClosed(t, snapshotOf(t, "mi300x-spx-8", partition.RegisterOptions{}))
	library := filepath.Join(r.cfg.HookPath, "vgpu", hook.Library)
	need, err := r.gate.requirements()
	if err != nil || need.Glibc.String() != "2.34" {
		t.Fatalf("needs %v, %v, want 2.34", need.Glibc, err)
	}
	next := library + ".new"
	if err := errors.Join(os.WriteFile(next, elftest.Hook("GLIBC_2.17"), 0o644), os.Rename(next, library)); err != nil {
		t.Fatal(err)
	}
	if need, err = r.gate.requirements(); err != nil || need.Glibc.String() != "2.17" {
		t.Errorf("needs %v, %v, want 2.17", need.Glibc, err)
	}
	if err := os.WriteFile(library, bytes.Repeat([]byte("x"), 100), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := r.gate.requirements(); err == nil {
		t.Error("a hook that is no library: no error")
	}
}

func TestOverrideOfTheCommand(t *testing.T) {
	c := &corev1.Container{
		Command: []string{"sh"}, Args: []string{"-c", "x"}, WorkingDir: "/w",
		Env: []corev1.EnvVar{
			{Name: "PATH", Value: "/first"}, {Name: "PATH", ValueFrom: &corev1.EnvVarSource{}}, {Name: "HOME", Value: "/h"},
		},
		VolumeMounts: []corev1.VolumeMount{{Name: "a", MountPath: "/opt"}, {Name: "b", MountPath: "/usr/lib"}},
	}
	got := fmt.Sprintf("%+v", overrideOf(c))
	if want := fmt.Sprintf("%+v", image.Override{Command: c.Command, Args: c.Args, WorkingDir: "/w", Path: "/first", Mounts: []string{"/opt", "/usr/lib"}}); got != want {
		t.Errorf("override %s, want %s", got, want)
	}
}
