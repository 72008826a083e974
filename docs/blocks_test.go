package docs

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/Project-HAMi/hami-amd/amd"
	"github.com/Project-HAMi/hami-amd/annotations"
)

// programs is the folder for what the tests build.
var programs string

func TestMain(m *testing.M) {
	var err error
	if programs, err = os.MkdirTemp("", "docs-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(programs)
	os.Exit(code)
}

// amdctl is examples/amdctl, built once.
var amdctl = sync.OnceValues(func() (string, error) {
	path := filepath.Join(programs, "amdctl")
	build := exec.Command("go", "build", "-o", path, "./examples/amdctl")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build examples/amdctl: %w\n%s", err, out)
	}
	return path, nil
})

// The commands that need no cluster run, and print what the block after them
// says.
func TestCommandsRun(t *testing.T) {
	bin, err := amdctl()
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, d := range documents(t) {
		for i, b := range d.blocks {
			if b.language != "sh" || b.kind != "" {
				continue
			}
			ran++
			script := strings.ReplaceAll(b.text, "go run ./examples/amdctl ", bin+" ")
			cmd := exec.Command("sh", "-e", "-c", script)
			cmd.Dir = root
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if err != nil || len(out) == 0 {
				t.Errorf("%s:%d: %v, output %q\n%s", b.file, b.line, err, out, stderr.String())
			}
			if i+1 < len(d.blocks) && d.blocks[i+1].language == "text" && d.blocks[i+1].kind == "output" {
				if diff := cmp.Diff(strings.TrimSpace(d.blocks[i+1].text), strings.TrimSpace(string(out))); diff != "" {
					t.Errorf("%s:%d: output (-document +command):\n%s", b.file, b.line, diff)
				}
			}
		}
	}
	if ran < 5 {
		t.Errorf("%d blocks of commands", ran)
	}
}

// strict refuses whatever would otherwise be put right: an example should need
// no putting right.
func strict(t *testing.T) *amd.Devices {
	t.Helper()
	devices, err := amd.New(amd.Config{StrictAdmission: true})
	if err != nil {
		t.Fatal(err)
	}
	return devices
}

// The objects are known to Kubernetes down to their last member, and pods that
// ask for GPUs are admitted.
func TestObjects(t *testing.T) {
	codecs := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict)
	devices := strict(t)
	each(t, "yaml", "", func(t *testing.T, b block) {
		for document := range strings.SplitSeq(b.text, "---\n") {
			object, _, err := codecs.UniversalDeserializer().Decode([]byte(document), nil, nil)
			if err != nil {
				t.Fatalf("%s:%d: %v", b.file, b.line, err)
			}
			pod, ok := object.(*corev1.Pod)
			if !ok {
				continue
			}
			admission, err := devices.Admit(pod)
			if err != nil || !admission.Asks || len(admission.Notes) > 0 {
				t.Errorf("%s:%d: pod %q: asks for GPUs %t, notes %q, error %v", b.file, b.line, pod.Name, admission.Asks, admission.Notes, err)
			}
		}
	})
}

func TestDeviceConfigurations(t *testing.T) {
	each(t, "yaml", "hami", func(t *testing.T, b block) {
		inner, ok := strings.CutPrefix(b.text, "amd:\n")
		if !ok {
			t.Fatalf("%s:%d: want the block amd", b.file, b.line)
		}
		if _, err := amd.ParseConfig([]byte(strings.ReplaceAll(inner, "\n  ", "\n"))); err != nil {
			t.Errorf("%s:%d: %v", b.file, b.line, err)
		}
	})
}

// The values of annotations are read by their decoders.
func TestAnnotationValues(t *testing.T) {
	decoders := map[string]func(string) error{
		annotations.NodeRegisterKey:   func(s string) error { _, err := annotations.DecodeDevices(s); return err },
		annotations.NodeLockKey:       func(s string) error { _, err := annotations.ParseNodeLock(s); return err },
		annotations.DeviceCordonKey:   func(s string) error { _, err := annotations.ParseCordon(s); return err },
		annotations.AllocatedKey:      func(s string) error { _, err := annotations.DecodePod(s); return err },
		annotations.ToAllocateKey:     func(s string) error { _, err := annotations.DecodePod(s); return err },
		annotations.CUAllocatedKey:    func(s string) error { _, err := annotations.DecodeCUs(s); return err },
		annotations.CUContainersKey:   func(s string) error { _, err := annotations.DecodeContainerCUs(s); return err },
		annotations.ScoringWeightsKey: func(s string) error { _, err := annotations.ParseWeights(s); return err },
	}
	read := map[string]bool{}
	for _, d := range documents(t) {
		for _, b := range d.blocks {
			decode := decoders[b.kind]
			if b.language != "text" || !strings.HasPrefix(b.kind, "hami.io/") {
				continue
			}
			if decode == nil {
				t.Errorf("%s:%d: %s has no decoder here", b.file, b.line, b.kind)
				continue
			}
			read[b.kind] = true
			// Long values are broken into lines between their elements.
			value := strings.NewReplacer("\n  ", "", "\n", "").Replace(strings.TrimSpace(b.text))
			if err := decode(value); err != nil {
				t.Errorf("%s:%d: %v", b.file, b.line, err)
			}
		}
	}
	for key := range decoders {
		if !read[key] {
			t.Errorf("no document shows a value of %s", key)
		}
	}
}
