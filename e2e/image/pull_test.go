package image

import (
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	hookimage "github.com/Project-HAMi/hami-amd/hook/image"
)

// registry serves one image, as the OCI distribution specification has it.
type registry struct {
	*httptest.Server
	blobs blobs
	top   descriptor

	mu       sync.Mutex
	requests []string
	gate     chan struct{} // layers wait until it is closed
}

func newRegistry(t *testing.T, b blobs, top descriptor) *registry {
	r := &registry{blobs: b, top: top, gate: make(chan struct{})}
	r.Server = httptest.NewServer(http.HandlerFunc(r.serve))
	t.Cleanup(r.Close)
	return r
}

func (r *registry) serve(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	r.requests = append(r.requests, req.Method+" "+req.URL.Path)
	r.mu.Unlock()
	kind, id, ok := strings.Cut(strings.TrimPrefix(req.URL.Path, "/v2/team/app/"), "/")
	digest := id
	if ok && kind == "manifests" && id == "1" {
		digest = r.top.Digest
	}
	data, found := r.blobs[digest]
	if !ok || !found {
		http.NotFound(w, req)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	if kind == "manifests" {
		w.Header().Set("Content-Type", manifestType)
		w.Header().Set("Docker-Content-Digest", digest)
	} else {
		select {
		case <-r.gate:
		case <-req.Context().Done():
			return
		}
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	if req.Method != http.MethodHead {
		_, _ = w.Write(data)
	}
}

// count is how many requests began with prefix.
func (r *registry) count(prefix string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, q := range r.requests {
		if strings.HasPrefix(q, prefix) {
			n++
		}
	}
	return n
}

// The first pods of an image find it missing: they are refused with the known
// text and one pull runs in the background; a pod that comes after it starts.
func TestAbsentImageIsPulledInTheBackground(t *testing.T) {
	b := blobs{}
	r := newRegistry(t, b, b.image(t, runtime.GOARCH, command("/bin/sh"), glibc(t)))
	ref := strings.TrimPrefix(r.URL, "http://") + "/team/app:1"
	s := store(t, "overlayfs")
	c := hookimage.NewChecker(s, hookimage.Options{})
	defer c.Close()

	check := func() (hookimage.Result, error) { return c.Check(t.Context(), ref, hookimage.Override{}) }
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, err := check(); !errors.Is(err, hookimage.ErrNotOnNode) || err.Error() != "image is not on the node yet" {
				t.Errorf("got %v", err)
			}
		})
	}
	wg.Wait()
	close(r.gate)
	removeLater(t, ref)

	var got hookimage.Result
	var err error
	for range 600 {
		if got, err = check(); !errors.Is(err, hookimage.ErrNotOnNode) {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if err != nil || got.Libc != hookimage.GNU {
		t.Errorf("after the pull: %+v, %v", got, err)
	}
	layer := "GET /v2/team/app/blobs/"
	if n, most := r.count(layer), len(b)-1; n > most {
		t.Errorf("%d blobs were fetched, want at most the %d there are", n, most)
	}
	wantNothingLeft(t)
}

// A registry that has no such image: the reason reaches the pod's owner.
func TestPullThatFails(t *testing.T) {
	r := newRegistry(t, blobs{}, descriptor{Digest: "sha256:none"})
	ref := strings.TrimPrefix(r.URL, "http://") + "/team/app:1"
	c := hookimage.NewChecker(store(t, "overlayfs"), hookimage.Options{})
	defer c.Close()
	for range 600 {
		_, err := c.Check(t.Context(), ref, hookimage.Override{})
		if !errors.Is(err, hookimage.ErrNotOnNode) {
			t.Fatalf("got %v", err)
		}
		if strings.Contains(err.Error(), "image is not on the node yet: last pull of") && strings.Contains(err.Error(), "not found") {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Error("the failure of the pull was never reported")
}

// ctr pulls as well, if it can reach the registry: here it cannot, since it
// insists on TLS.
func TestCtrPullFails(t *testing.T) {
	r := newRegistry(t, blobs{}, descriptor{Digest: "sha256:none"})
	s := hookimage.Ctr{Socket: daemon.socket, Namespace: namespace}
	name := strings.TrimPrefix(r.URL, "http://") + "/team/app:1"
	if _, err := s.Resolve(t.Context(), name); !errors.Is(err, hookimage.ErrNotOnNode) {
		t.Errorf("resolve: %v", err)
	}
	if err := s.Pull(t.Context(), name); err == nil {
		t.Error("pulled from a registry that has nothing")
	}
	missing := hookimage.Image{Name: name, Digest: "sha256:" + strings.Repeat("0", 64)}
	err := s.Open(t.Context(), missing, func(hookimage.Config, fs.ReadLinkFS) error { return nil })
	if !errors.Is(err, hookimage.ErrNotOnNode) {
		t.Errorf("open: %v", err)
	}
}
