package cluster

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const released = `{
	"Module": {"Path": "k8s.io/kubernetes"},
	"Go": "1.26.0",
	"Replace": [
		{"Old": {"Path": "k8s.io/apimachinery"}, "New": {"Path": "./staging/src/k8s.io/apimachinery"}},
		{"Old": {"Path": "k8s.io/api"}, "New": {"Path": "./staging/src/k8s.io/api"}},
		{"Old": {"Path": "example.com/fork"}, "New": {"Path": "example.com/other", "Version": "v1.0.0"}}
	]
}`

func TestBuildModFile(t *testing.T) {
	got, err := buildModFile([]byte(released), "v1.36.3")
	if err != nil {
		t.Fatal(err)
	}
	const want = `module kubernetes

go 1.26.0

require k8s.io/kubernetes v1.36.3

replace (
	k8s.io/api => k8s.io/api v0.36.3
	k8s.io/apimachinery => k8s.io/apimachinery v0.36.3
)
`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("go.mod (-want +got):\n%s", diff)
	}
}

func TestBuildModFileRefuses(t *testing.T) {
	for name, tt := range map[string]struct{ released, version string }{
		"no JSON":                {"module k8s.io/kubernetes", "v1.36.3"},
		"no go line":             {`{"Replace":[{"Old":{"Path":"k8s.io/api"},"New":{"Path":"./staging/src/k8s.io/api"}}]}`, "v1.36.3"},
		"no staging modules":     {`{"Go":"1.26.0"}`, "v1.36.3"},
		"a release of version 2": {released, "v2.0.0"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := buildModFile([]byte(tt.released), tt.version); err == nil {
				t.Errorf("accepted, wrote %q", got)
			}
		})
	}
}

// A binary that is there is used: no build, no network.
func TestProgramsFromCache(t *testing.T) {
	for name, get := range map[string]func(context.Context, string, io.Writer) (string, error){
		"kube-apiserver": APIServer, "kubectl": Kubectl,
	} {
		t.Run(name, func(t *testing.T) {
			cache := t.TempDir()
			want := filepath.Join(cache, Version, name)
			if err := os.MkdirAll(filepath.Dir(want), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(want, nil, 0o755); err != nil {
				t.Fatal(err)
			}
			var progress strings.Builder
			got, err := get(t.Context(), cache, &progress)
			if err != nil || got != want || progress.Len() > 0 {
				t.Errorf("it is %q, %v, says %q; want %q in silence", got, err, progress.String(), want)
			}
		})
	}
}

func TestStartNeedsEtcd(t *testing.T) {
	_, err := Start(t.Context(), Options{Etcd: "/nonexistent/etcd", CacheDir: t.TempDir(), Progress: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "etcd-server") {
		t.Errorf("error is %v, want one that names the package etcd-server", err)
	}
}
