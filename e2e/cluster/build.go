package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/Project-HAMi/hami-amd/e2e/process"
)

// Version is the release of Kubernetes the programs are built from. The
// kubelet parts come from the same release, through this module's go.mod.
const Version = "v1.36.3"

const kubernetesModule = "k8s.io/kubernetes"

// The programs that are built, each k8s.io/kubernetes/cmd/<name>.
const (
	apiServerName = "kube-apiserver"
	kubectlName   = "kubectl"
)

// DefaultCacheDir is where built programs are kept: hami-amd-e2e in the
// user's cache folder.
func DefaultCacheDir() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a folder for the binaries of Kubernetes: %w", err)
	}
	return filepath.Join(base, "hami-amd-e2e"), nil
}

// APIServer returns the path of a kube-apiserver of [Version], and builds it
// into cacheDir when it is not there yet. Several processes may call it at
// once: one builds, the others wait. What the build says goes to progress.
//
// It needs the go command, and the first time a module proxy.
func APIServer(ctx context.Context, cacheDir string, progress io.Writer) (string, error) {
	return program(ctx, apiServerName, cacheDir, progress)
}

// Kubectl is APIServer for kubectl of the same release.
func Kubectl(ctx context.Context, cacheDir string, progress io.Writer) (string, error) {
	return program(ctx, kubectlName, cacheDir, progress)
}

func program(ctx context.Context, name, cacheDir string, progress io.Writer) (string, error) {
	dir := filepath.Join(cacheDir, Version)
	binary := filepath.Join(dir, name)
	if isFile(binary) {
		return binary, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make room for %s: %w", name, err)
	}
	unlock, err := lockFile(ctx, filepath.Join(dir, "lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if isFile(binary) {
		return binary, nil
	}
	start := time.Now()
	fmt.Fprintf(progress, "building %s %s into %s, once; this takes some minutes\n", name, Version, dir)
	if err := build(ctx, dir, binary, kubernetesModule+"/cmd/"+name); err != nil {
		return "", fmt.Errorf("build %s %s: %w", name, Version, err)
	}
	fmt.Fprintf(progress, "built %s in %s\n", name, time.Since(start).Round(time.Second))
	return binary, nil
}

// build builds in a module of its own, so that a program gets exactly the
// dependencies its release names, whatever this module requires.
func build(ctx context.Context, dir, binary, mainPackage string) error {
	module := filepath.Join(dir, "module")
	if err := os.MkdirAll(module, 0o755); err != nil {
		return err
	}
	released, err := releasedModFile(ctx, module)
	if err != nil {
		return err
	}
	mod, err := buildModFile(released, Version)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(module, "go.mod"), mod, 0o644); err != nil {
		return err
	}
	// Renamed into place, so that a build cut short leaves no binary behind.
	partial := binary + ".partial"
	defer os.Remove(partial)
	const versionVars = "k8s.io/component-base/version"
	ldflags := fmt.Sprintf("-s -w -X %[1]s.gitVersion=%[2]s -X %[1]s.gitTreeState=clean", versionVars, Version)
	if _, err := goCommand(ctx, module, "build", "-mod=mod", "-trimpath", "-ldflags", ldflags, "-o", partial, mainPackage); err != nil {
		return err
	}
	return os.Rename(partial, binary)
}

// releasedModFile returns go.mod of the release as `go mod edit -json` shows it.
func releasedModFile(ctx context.Context, dir string) ([]byte, error) {
	out, err := goCommand(ctx, dir, "mod", "download", "-json", kubernetesModule+"@"+Version)
	if err != nil {
		return nil, err
	}
	var downloaded struct{ GoMod string }
	if err := json.Unmarshal(out, &downloaded); err != nil {
		return nil, fmt.Errorf("read what go mod download answered: %w", err)
	}
	return goCommand(ctx, dir, "mod", "edit", "-json", downloaded.GoMod)
}

// buildModFile writes the module that builds a release. The release's own
// go.mod points every staging module (k8s.io/api and so on) at a folder of the
// Kubernetes repository, which replace lines of a dependency cannot do, so each
// is replaced by its published version: v0.36.3 for v1.36.3.
func buildModFile(released []byte, version string) ([]byte, error) {
	var mod struct {
		Go      string
		Replace []struct {
			Old, New struct{ Path string }
		}
	}
	if err := json.Unmarshal(released, &mod); err != nil {
		return nil, fmt.Errorf("read go.mod of %s: %w", kubernetesModule, err)
	}
	rest, ok := strings.CutPrefix(version, "v1.")
	if !ok || mod.Go == "" {
		return nil, fmt.Errorf("read go.mod of %s %s: want a v1 release and a go line", kubernetesModule, version)
	}
	var staging []string
	for _, r := range mod.Replace {
		if strings.HasPrefix(r.New.Path, "./staging/") {
			staging = append(staging, r.Old.Path)
		}
	}
	if len(staging) == 0 {
		return nil, fmt.Errorf("read go.mod of %s %s: no staging modules found", kubernetesModule, version)
	}
	slices.Sort(staging)
	var b strings.Builder
	fmt.Fprintf(&b, "module kubernetes\n\ngo %s\n\nrequire %s %s\n\nreplace (\n", mod.Go, kubernetesModule, version)
	for _, path := range staging {
		fmt.Fprintf(&b, "\t%s => %s v0.%s\n", path, path, rest)
	}
	b.WriteString(")\n")
	return []byte(b.String()), nil
}

// goCommand runs the go command at the lowest priority and returns its output.
func goCommand(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "nice", append([]string{"-n", "19", "go"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w\n%s", args[0], err, process.Tail(out, 20)+process.Tail([]byte(stderr.String()), 20))
	}
	return out, nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().Type() == fs.FileMode(0)
}
