package crash

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestBinarySize builds the plugin the plain way: at most 45 MB.
func TestBinarySize(t *testing.T) {
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/Project-HAMi/hami-amd").Output()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "deviceplugin")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, "./examples/deviceplugin")
	build.Dir = strings.TrimSpace(string(root))
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	file, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if file.Size() > 45_000_000 {
		t.Errorf("the binary has %d bytes", file.Size())
	}
	image, err := os.Stat(lab.Binary)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("binary: %.1f MB, with -tags grpcnotrace, as in the image: %.1f MB", float64(file.Size())/1e6, float64(image.Size())/1e6)
}
