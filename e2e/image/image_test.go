package image

import (
	"context"
	"debug/elf"
	"errors"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/Project-HAMi/hami-amd/hook"
	"github.com/Project-HAMi/hami-amd/hook/elftest"
	hookimage "github.com/Project-HAMi/hami-amd/hook/image"
)

// need is what the published hook needs.
var need = hook.Requirements{Machine: elf.EM_X86_64, Class: elf.ELFCLASS64, Data: elf.ELFDATA2LSB, Glibc: hook.Glibc{Major: 2, Minor: 34}}

// oldLibc stands in for the C library of an old distribution.
func oldLibc(versions ...string) layer {
	return layer{"usr/lib/x86_64-linux-gnu/libc.so.6": file(elftest.Build(elftest.Options{Versions: versions}))}
}

// The ways to get at an image: containerd's client with both snapshotters that
// work anywhere, and ctr.
func stores(t *testing.T) map[string]struct {
	snapshotter string
	store       hookimage.Store
} {
	t.Helper()
	type way = struct {
		snapshotter string
		store       hookimage.Store
	}
	return map[string]way{
		"client, overlayfs": {"overlayfs", store(t, "overlayfs")},
		"client, native":    {"native", store(t, "native")},
		// The image was unpacked by another snapshotter than the configured one.
		"client, found": {"native", store(t, "")},
		"ctr":           {"overlayfs", hookimage.Ctr{Socket: daemon.socket, Namespace: namespace}},
		"ctr, native":   {"native", hookimage.Ctr{Socket: daemon.socket, Namespace: namespace, Snapshotter: "native"}},
	}
}

func TestImages(t *testing.T) {
	debian, alpine, busybox := glibc(t), musl(t), static(t)
	tests := map[string]struct {
		config   config
		layers   []layer
		override hookimage.Override
		libc     hookimage.Libc
		version  string
		verdict  hook.Image
	}{
		"glibc of Debian 12":          {config: command("/bin/sh"), layers: []layer{debian}, libc: hookimage.GNU, version: "2.36", verdict: hook.ImageLoads},
		"glibc, found in PATH":        {config: config{Cmd: []string{"sh", "-c", "true"}}, layers: []layer{debian}, libc: hookimage.GNU, version: "2.36", verdict: hook.ImageLoads},
		"glibc, a script through env": {config: command("/start"), layers: []layer{debian, {"start": script("#!/usr/bin/env sh")}}, libc: hookimage.GNU, version: "2.36", verdict: hook.ImageLoads},
		"old glibc":                   {config: command("/bin/sh"), layers: []layer{debian, oldLibc("GLIBC_2.2.5", "GLIBC_2.4", "GLIBC_2.31")}, libc: hookimage.GNU, version: "2.31", verdict: hook.ImageCannot},
		"very old glibc":              {config: command("/bin/sh"), layers: []layer{debian, oldLibc("GLIBC_2.2.5", "GLIBC_2.4")}, libc: hookimage.GNU, version: "2.4", verdict: hook.ImageCannot},
		"glibc without a version":     {config: command("/bin/sh"), layers: []layer{debian, oldLibc("GLIBC_PRIVATE")}, libc: hookimage.GNU, version: "0.0", verdict: hook.ImageUnknown},
		"musl":                        {config: command("/bin/app"), layers: []layer{alpine}, libc: hookimage.Musl, verdict: hook.ImageCannot},
		"musl's program beside glibc": {config: command("/opt/app"), layers: []layer{debian, {"opt/app": alpine["bin/app"], "usr/lib/ld-musl-x86_64.so.1": alpine["lib/ld-musl-x86_64.so.1"]}}, libc: hookimage.Musl, verdict: hook.ImageCannot},
		"static":                      {config: command("/bin/busybox"), layers: []layer{busybox}, libc: hookimage.Static, verdict: hook.ImageCannot},
		"static-pie":                  {config: command("/app"), layers: []layer{{"app": app(t, "-static-pie")}}, libc: hookimage.Static, verdict: hook.ImageCannot},
		"scratch with a script":       {config: command("/start"), layers: []layer{{"start": script("#!/bin/sh")}}, libc: hookimage.Unknown, verdict: hook.ImageUnknown},
		"a script of a static shell":  {config: command("/start"), layers: []layer{busybox, {"start": script("#!/bin/sh -e")}}, libc: hookimage.Static, verdict: hook.ImageCannot},
		"an upper layer replaces":     {config: command("/bin/app"), layers: []layer{alpine, debian.with(layer{"bin": {link: "usr/bin"}}), {"usr/bin/app": debian["usr/bin/dash"]}}, libc: hookimage.GNU, version: "2.36", verdict: hook.ImageLoads},
		"an upper layer removes":      {config: command("sh"), layers: []layer{debian, {"usr/bin/.wh.dash": text("")}}, libc: hookimage.Unknown, verdict: hook.ImageUnknown},
		"the pod's command":           {config: command("/bin/none"), layers: []layer{debian}, override: hookimage.Override{Command: []string{"env", "A=b", "sh"}}, libc: hookimage.GNU, version: "2.36", verdict: hook.ImageLoads},
		"the program is on a volume":  {config: command("/bin/sh"), layers: []layer{debian}, override: hookimage.Override{Mounts: []string{"/usr/bin"}}, libc: hookimage.Unknown, verdict: hook.ImageUnknown},
		"setuid":                      {config: command("/app"), layers: []layer{debian, {"app": entry{data: debian["usr/bin/dash"].data, mode: 0o755 | fs.ModeSetuid}}}, libc: hookimage.GNU, version: "2.36", verdict: hook.ImageCannot},
	}
	for way, w := range stores(t) {
		t.Run(way, func(t *testing.T) {
			c := hookimage.NewChecker(w.store, hookimage.Options{})
			defer c.Close()
			n := 0
			for name, tt := range tests {
				t.Run(name, func(t *testing.T) {
					n++
					ref := imageName(way, n)
					loadImage(t, w.snapshotter, ref, tt.config, tt.layers...)
					r, err := c.Check(t.Context(), ref, tt.override)
					if err != nil {
						t.Fatal(err)
					}
					if r.Libc != tt.libc || tt.libc == hookimage.GNU && r.Glibc.String() != tt.version {
						t.Errorf("got %+v, want %s %s", r, tt.libc, tt.version)
					}
					if v, detail := r.Verdict(need); v != tt.verdict || (detail == "") != (v == hook.ImageLoads) {
						t.Errorf("verdict %v, %q; want %v", v, detail, tt.verdict)
					}
				})
			}
			wantNothingLeft(t)
		})
	}
}

// imageName is a name that no other test uses.
func imageName(parts string, n int) string {
	name := strings.NewReplacer(" ", "-", ",", "").Replace(parts)
	return "registry.example/" + name + ":v" + string(rune('a'+n%26)) + string(rune('a'+n/26))
}

// Of an image for several platforms this machine's is looked at. One that has
// none for it is not usable here.
func TestImagesOfSeveralPlatforms(t *testing.T) {
	for way, w := range stores(t) {
		t.Run(way, func(t *testing.T) {
			b := blobs{}
			foreign := layer{"bin/app": file(elftest.Build(elftest.Options{Machine: elf.EM_AARCH64, Interp: "/lib/ld-musl-aarch64.so.1"}))}
			here := layer{"bin/app": file(elftest.Build(elftest.Options{Type: elf.ET_EXEC}))}
			load(t, w.snapshotter, "registry.example/multi:1", b, b.index(t,
				b.image(t, "arm64", command("/bin/app"), foreign),
				b.image(t, "amd64", command("/bin/app"), here)))
			c := hookimage.NewChecker(w.store, hookimage.Options{})
			defer c.Close()
			r, err := c.Check(t.Context(), "registry.example/multi:1", hookimage.Override{})
			if err != nil || r.Libc != hookimage.Static || r.Machine != elf.EM_X86_64 {
				t.Errorf("got %+v, %v; want the static program of amd64", r, err)
			}
			wantNothingLeft(t)
		})
	}
}

// countingStore counts looks into images.
type countingStore struct {
	hookimage.Store
	looks, resolves atomic.Int32
}

func (s *countingStore) Resolve(ctx context.Context, name string) (hookimage.Image, error) {
	s.resolves.Add(1)
	return s.Store.Resolve(ctx, name)
}

func (s *countingStore) Open(ctx context.Context, img hookimage.Image, fn func(hookimage.Config, fs.ReadLinkFS) error) error {
	s.looks.Add(1)
	return s.Store.Open(ctx, img, fn)
}

// Fifty pods of one image that start together mount it once.
func TestConcurrentChecksMountOnce(t *testing.T) {
	const ref = "registry.example/many:1"
	loadImage(t, "overlayfs", ref, command("/bin/sh"), glibc(t), layer{"etc/x": text("x")})
	s := &countingStore{Store: store(t, "overlayfs")}
	c := hookimage.NewChecker(s, hookimage.Options{})
	defer c.Close()
	start := make(chan struct{})
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			<-start
			if r, err := c.Check(t.Context(), ref, hookimage.Override{}); err != nil || r.Libc != hookimage.GNU {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
	close(start)
	wg.Wait()
	if looks, resolves := s.looks.Load(), s.resolves.Load(); looks != 1 || resolves != 1 {
		t.Errorf("%d mounts and %d lookups, want one of each", looks, resolves)
	}
	wantNothingLeft(t)
}

// An image whose files no snapshotter has is not on the node, whatever the
// list says.
func TestImageThatIsNotUnpacked(t *testing.T) {
	const ref = "registry.example/packed:1"
	loadImage(t, "native", ref, command("/bin/busybox"), static(t))
	s := store(t, "native")
	img, err := s.Resolve(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range strings.Fields(mustCtr(t, "snapshots", "--snapshotter", "native", "list"))[3:] {
		if strings.HasPrefix(id, "sha256:") {
			mustCtr(t, "snapshots", "--snapshotter", "native", "rm", id)
		}
	}
	err = s.Open(t.Context(), img, func(hookimage.Config, fs.ReadLinkFS) error { t.Error("opened"); return nil })
	if !errors.Is(err, hookimage.ErrNotOnNode) {
		t.Errorf("got %v, want not on the node", err)
	}
	wantNothingLeft(t)
}

// A containerd that is not there is a failure, and no answer about the image.
func TestNoContainerd(t *testing.T) {
	s, err := hookimage.OpenContainerd(hookimage.ContainerdOptions{Socket: t.TempDir() + "/none.sock"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c := hookimage.NewChecker(s, hookimage.Options{})
	defer c.Close()
	if _, err := c.Check(t.Context(), "debian:12", hookimage.Override{}); err == nil || errors.Is(err, hookimage.ErrNotOnNode) {
		t.Errorf("got %v, want a failure", err)
	}
}
