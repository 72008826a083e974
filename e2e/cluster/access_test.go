package cluster

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

func TestWriteKubeconfig(t *testing.T) {
	cert, _, err := servingCertificate(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	want := &rest.Config{Host: "https://127.0.0.1:6443", BearerToken: "secret", TLSClientConfig: rest.TLSClientConfig{CAData: cert}}
	if err := WriteKubeconfig(path, want); err != nil {
		t.Fatal(err)
	}
	got, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{want.Host, want.BearerToken, string(want.CAData)}, []string{got.Host, got.BearerToken, string(got.CAData)}); diff != "" {
		t.Errorf("access (-want +got):\n%s", diff)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode is %v, %v: a token is in it", info.Mode(), err)
	}
}
