package image

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/Project-HAMi/hami-amd/e2e/process"
)

// entry is a file of an image: content, or the target of a symbolic link.
type entry struct {
	data []byte
	mode fs.FileMode
	link string
}

// layer is the entries of one layer by path, without the leading slash. The
// name .wh.<name> removes <name> of the layers below.
type layer map[string]entry

func (l layer) with(others ...layer) layer {
	all := maps.Clone(l)
	for _, o := range others {
		maps.Copy(all, o)
	}
	return all
}

func file(data []byte) entry        { return entry{data: data, mode: 0o755} }
func text(s string) entry           { return file([]byte(s)) }
func symlink(to string) entry       { return entry{link: to} }
func script(line string) entry      { return text(line + "\necho started\n") }
func command(argv ...string) config { return config{Entrypoint: argv} }

// host reads a file of this machine.
func host(t *testing.T, name string) entry {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return file(data)
}

// glibc is a small Debian: its shell, env, the loader and the C library, laid
// out as Debian 12 does, where /lib is a link to /usr/lib.
func glibc(t *testing.T) layer {
	t.Helper()
	return layer{
		"bin":                            symlink("usr/bin"),
		"lib":                            symlink("usr/lib"),
		"lib64":                          symlink("usr/lib64"),
		"usr/bin/sh":                     symlink("dash"),
		"usr/bin/dash":                   host(t, "/usr/bin/dash"),
		"usr/bin/env":                    host(t, "/usr/bin/env"),
		"usr/lib64/ld-linux-x86-64.so.2": symlink("/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"),
		"usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2": host(t, "/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"),
		"usr/lib/x86_64-linux-gnu/libc.so.6":            host(t, "/lib/x86_64-linux-gnu/libc.so.6"),
	}
}

// muslLoader is the path of musl's library, which is its loader too.
const muslLoader = "/lib/ld-musl-x86_64.so.1"

// musl is musl's library and a program for it.
func musl(t *testing.T) layer {
	t.Helper()
	return layer{
		strings.TrimPrefix(muslLoader, "/"): host(t, muslLoader),
		"bin/app":                           compile(t, "testdata/musl.c", "-nostdlib", "-ffreestanding", "-Wl,-dynamic-linker="+muslLoader, muslLoader),
	}
}

// static is a shell that is linked statically.
func static(t *testing.T) layer {
	t.Helper()
	return layer{"bin/busybox": host(t, "/bin/busybox"), "bin/sh": symlink("busybox")}
}

// app is the program of a container, built with some options of gcc.
func app(t *testing.T, options ...string) entry {
	t.Helper()
	return compile(t, "testdata/app.c", options...)
}

// compile builds a C file. Options may name libraries.
func compile(t *testing.T, source string, options ...string) entry {
	t.Helper()
	gcc, err := process.Find("gcc", "install Debian's packages gcc and libc6-dev")
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	cmd := exec.Command(gcc, slices.Concat([]string{"-O1", "-Wall", "-Werror", "-o", out, source}, options)...)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, text)
	}
	return host(t, out)
}

// config is the part of an image's configuration that a test sets.
type config struct {
	Entrypoint []string `json:",omitempty"`
	Cmd        []string `json:",omitempty"`
	Env        []string `json:",omitempty"`
	WorkingDir string   `json:",omitempty"`
}

// blobs is the content of one or more images by digest.
type blobs map[string][]byte

func (b blobs) add(data []byte) string {
	sum := sha256.Sum256(data)
	digest := "sha256:" + hex.EncodeToString(sum[:])
	b[digest] = data
	return digest
}

func (b blobs) addJSON(t *testing.T, v any) descriptor {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return descriptor{Digest: b.add(data), Size: len(data)}
}

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	OS           string `json:"os"`
	Architecture string `json:"architecture"`
}

const (
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	indexType    = "application/vnd.oci.image.index.v1+json"
)

// image adds an image of this machine's platform, or of another.
func (b blobs) image(t *testing.T, arch string, c config, layers ...layer) descriptor {
	t.Helper()
	var diffs []string
	var list []descriptor
	for _, l := range layers {
		data := l.tar(t)
		digest := b.add(data)
		diffs = append(diffs, digest) // not compressed, so both digests are one
		list = append(list, descriptor{MediaType: "application/vnd.oci.image.layer.v1.tar", Digest: digest, Size: len(data)})
	}
	cfg := b.addJSON(t, map[string]any{
		"os": "linux", "architecture": arch, "config": c,
		"rootfs": map[string]any{"type": "layers", "diff_ids": diffs},
	})
	cfg.MediaType = "application/vnd.oci.image.config.v1+json"
	d := b.addJSON(t, map[string]any{"schemaVersion": 2, "mediaType": manifestType, "config": cfg, "layers": list})
	d.MediaType, d.Platform = manifestType, &platform{"linux", arch}
	return d
}

// index adds a list of images for several platforms.
func (b blobs) index(t *testing.T, images ...descriptor) descriptor {
	t.Helper()
	d := b.addJSON(t, map[string]any{"schemaVersion": 2, "mediaType": indexType, "manifests": images})
	d.MediaType = indexType
	return d
}

// tar is the layer as an archive.
func (l layer) tar(t *testing.T) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	dirs := map[string]bool{".": true}
	var mkdir func(dir string)
	mkdir = func(dir string) {
		if dirs[dir] || l[dir].link != "" {
			return
		}
		mkdir(path.Dir(dir))
		dirs[dir] = true
		put(t, w, &tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755}, nil)
	}
	for _, name := range slices.Sorted(maps.Keys(l)) {
		e := l[name]
		mkdir(path.Dir(name))
		if e.link != "" {
			put(t, w, &tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: e.link, Mode: 0o777}, nil)
			continue
		}
		mode := int64(e.mode.Perm())
		if e.mode&fs.ModeSetuid != 0 {
			mode |= 0o4000
		}
		put(t, w, &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(e.data))}, e.data)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func put(t *testing.T, w *tar.Writer, h *tar.Header, data []byte) {
	t.Helper()
	if err := w.WriteHeader(h); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
}

// load imports an image into the daemon and unpacks it with a snapshotter.
func load(t *testing.T, snapshotter, name string, b blobs, top descriptor) {
	t.Helper()
	top.Annotations = map[string]string{"io.containerd.image.name": name}
	top.Platform = nil
	index, err := json.Marshal(map[string]any{"schemaVersion": 2, "manifests": []descriptor{top}})
	if err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(t.TempDir(), "image.tar")
	f, err := os.Create(archive)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(f)
	for _, e := range []struct {
		name string
		data []byte
	}{{"oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)}, {"index.json", index}} {
		put(t, w, &tar.Header{Typeflag: tar.TypeReg, Name: e.name, Mode: 0o644, Size: int64(len(e.data))}, e.data)
	}
	for _, digest := range slices.Sorted(maps.Keys(b)) {
		put(t, w, &tar.Header{Typeflag: tar.TypeReg, Name: "blobs/" + strings.Replace(digest, ":", "/", 1), Mode: 0o644, Size: int64(len(b[digest]))}, b[digest])
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	mustCtr(t, "images", "import", "--snapshotter", snapshotter, archive)
	removeLater(t, name)
}

// removeLater removes an image with its content and snapshots once the test
// has ended.
func removeLater(t *testing.T, name string) {
	t.Cleanup(func() {
		// The test's own context has ended by now.
		if _, err := daemon.ctr(context.Background(), "images", "rm", "--sync", name); err != nil {
			t.Error(err)
		}
	})
}

// loadImage imports an image for this machine made of layers.
func loadImage(t *testing.T, snapshotter, name string, c config, layers ...layer) {
	t.Helper()
	b := blobs{}
	load(t, snapshotter, name, b, b.image(t, runtime.GOARCH, c, layers...))
}

// unpack writes layers below a directory, to run programs in it.
func unpack(t *testing.T, dir string, layers ...layer) {
	t.Helper()
	for _, l := range layers {
		for _, name := range slices.SortedFunc(maps.Keys(l), func(a, b string) int {
			// Links to directories come before what is put into them.
			if la, lb := l[a].link != "", l[b].link != ""; la != lb {
				if la {
					return -1
				}
				return 1
			}
			return strings.Compare(a, b)
		}) {
			target := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
				t.Fatal(err)
			}
			e := l[name]
			if e.link != "" {
				if err := os.Symlink(e.link, target); err != nil {
					t.Fatal(err)
				}
				continue
			}
			if err := os.WriteFile(target, e.data, e.mode.Perm()); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(target, e.mode); err != nil {
				t.Fatal(err)
			}
		}
	}
}
