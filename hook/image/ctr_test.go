package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/platforms"
)

func TestParseList(t *testing.T) {
	const table = `REF                         TYPE                                       DIGEST                                                                  SIZE     PLATFORMS   LABELS
docker.io/library/debian:12 application/vnd.oci.image.manifest.v1+json sha256:00000000000000000000000000000000000000000000000000000000000000aa 27.8 MiB linux/amd64 -
`
	got, err := parseList(table, debianName)
	want := Image{Name: debianName, MediaType: "application/vnd.oci.image.manifest.v1+json", Digest: "sha256:00000000000000000000000000000000000000000000000000000000000000aa"}
	if err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, out := range []string{"", "REF TYPE DIGEST SIZE PLATFORMS LABELS\n", strings.Replace(table, "debian", "debian2", 1)} {
		if _, err := parseList(out, debianName); !errors.Is(err, ErrNotOnNode) {
			t.Errorf("%q: %v, want not on the node", out, err)
		}
	}
	if _, err := parseList(debianName+" x y z\n", debianName); err == nil || errors.Is(err, ErrNotOnNode) {
		t.Errorf("no digest: %v", err)
	}
}

func TestNextBlob(t *testing.T) {
	here := platforms.DefaultSpec()
	index := fmt.Sprintf(`{"manifests":[
		{"digest":"sha256:other","platform":{"os":"plan9","architecture":"mips"}},
		{"digest":"sha256:unknown"},
		{"digest":"sha256:here","platform":{"os":%q,"architecture":%q}}]}`, here.OS, here.Architecture)
	for data, want := range map[string]string{
		index:                                   "sha256:here",
		`{"config":{"digest":"sha256:config"}}`: "sha256:config",
	} {
		if got, done, err := nextBlob([]byte(data)); err != nil || done || got != want {
			t.Errorf("%s: %q, %v, %v", data, got, done, err)
		}
	}
	if _, done, err := nextBlob([]byte(`{"rootfs":{},"config":{"Cmd":["sh"]}}`)); err != nil || !done {
		t.Errorf("a configuration: %v, %v", done, err)
	}
	for _, data := range []string{"", "null", "[]", "{}", `{"config":5}`, `{"config":{}}`, `{"manifests":[]}`, `{"manifests":[{"digest":"sha256:other","platform":{"os":"plan9","architecture":"mips"}}]}`} {
		if got, done, err := nextBlob([]byte(data)); err == nil {
			t.Errorf("%q: %q, %v, want an error", data, got, done)
		}
	}
}

// ctrEnv makes the test binary act as ctr, with the files of this directory as
// its store.
const ctrEnv = "IMAGE_TEST_CTR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(ctrEnv); dir != "" {
		os.Exit(actAsCtr(dir, os.Args[1:]))
	}
	os.Exit(m.Run())
}

// actAsCtr notes its arguments and answers from files: list and blobs. It
// mounts by writing the image's files into the directory.
func actAsCtr(dir string, args []string) int {
	log, err := os.OpenFile(filepath.Join(dir, "log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return 9
	}
	defer log.Close()
	fmt.Fprintln(log, strings.Join(args[4:], " "))
	last := args[len(args)-1]
	out, err := []byte(nil), error(nil)
	switch strings.Join(args[4:6], " ") {
	case "images list":
		out, err = os.ReadFile(filepath.Join(dir, "list"))
	case "content get":
		if out, err = os.ReadFile(filepath.Join(dir, strings.TrimPrefix(last, "sha256:"))); err != nil {
			err = fmt.Errorf("ctr: content digest %s: not found", last)
		}
	case "images mount":
		err = os.CopyFS(last, os.DirFS(filepath.Join(dir, "files")))
	case "images unmount":
		err = os.RemoveAll(filepath.Join(last, "app"))
	case "images pull":
		err = errors.New("ctr: failed to resolve reference")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	os.Stdout.Write(out)
	return 0
}

// fakeCtr is a Ctr whose command is this test.
func fakeCtr(t *testing.T) (Ctr, string) {
	dir := t.TempDir()
	t.Setenv(ctrEnv, dir)
	for name, data := range map[string]string{
		"list":     debianName + " application/vnd.oci.image.manifest.v1+json sha256:manifest 1 MiB linux/amd64 -\n",
		"manifest": `{"config":{"digest":"sha256:config"}}`,
		"config":   `{"rootfs":{"type":"layers"},"config":{"Entrypoint":["/app"]}}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "files"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "files", "app"), static().Data, 0o755); err != nil {
		t.Fatal(err)
	}
	return Ctr{Path: os.Args[0], Socket: "/run/test.sock", Snapshotter: "native"}, dir
}

func TestCtr(t *testing.T) {
	s, dir := fakeCtr(t)
	c := checker(t, s, Options{})
	r, err := c.Check(t.Context(), "debian:12", Override{})
	if err != nil || r.Libc != Static {
		t.Fatalf("got %+v, %v", r, err)
	}
	log, err := os.ReadFile(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	var calls []string
	for line := range strings.Lines(string(log)) {
		calls = append(calls, strings.Join(strings.Fields(line)[:2], " "))
	}
	want := []string{"images list", "content get", "content get", "images mount", "images list", "images unmount", "leases delete"}
	if !slices.Equal(calls, want) {
		t.Errorf("ctr was called for %q, want %q", calls, want)
	}
	if !strings.Contains(string(log), "images mount --snapshotter native "+debianName+" ") {
		t.Errorf("no mount with the snapshotter in:\n%s", log)
	}
}

func TestCtrFails(t *testing.T) {
	s, dir := fakeCtr(t)
	img, err := s.Resolve(t.Context(), debianName)
	if err != nil {
		t.Fatal(err)
	}
	never := func(Config, fs.ReadLinkFS) error { t.Error("called"); return nil }
	if _, err := s.Resolve(t.Context(), alpineName); !errors.Is(err, ErrNotOnNode) {
		t.Errorf("an image that is not there: %v", err)
	}
	if err := s.Pull(t.Context(), debianName); err == nil || !strings.Contains(err.Error(), "failed to resolve reference") {
		t.Errorf("a pull that fails: %v", err)
	}
	moved := img
	moved.Digest = "sha256:config" // a blob that is there, of another image
	if err := s.Open(t.Context(), moved, never); err == nil || !strings.Contains(err.Error(), "has changed from sha256:config to sha256:manifest") {
		t.Errorf("an image that moved: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "config")); err != nil {
		t.Fatal(err)
	}
	if err := s.Open(t.Context(), img, never); !errors.Is(err, ErrNotOnNode) {
		t.Errorf("content that is gone: %v", err)
	}
	s.Path = filepath.Join(dir, "none")
	if _, err := s.Resolve(t.Context(), debianName); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no ctr: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (Ctr{Path: os.Args[0]}).Resolve(ctx, debianName); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// What a command prints without end is not kept.
func TestLimitedBuffer(t *testing.T) {
	var b limitedBuffer
	chunk := make([]byte, 1<<20)
	for range maxOutput>>20 + 3 {
		if n, err := b.Write(chunk); n != len(chunk) || err != nil {
			t.Fatal(n, err)
		}
	}
	if len(b.kept) != maxOutput || !b.full {
		t.Errorf("%d bytes kept, full %v", len(b.kept), b.full)
	}
}
