package plugin

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/e2e/kubelet"
	"github.com/Project-HAMi/hami-amd/e2e/node"
)

// resolve returns the device nodes behind CDI names, as a runtime finds them in
// the node's CDI folder.
func resolve(n *node.Node, names []string) []string {
	n.Helper()
	cache, err := cdi.NewCache(cdi.WithSpecDirs(n.CDIDir()))
	if err != nil {
		n.Fatal(err)
	}
	var paths []string
	for _, name := range names {
		device := cache.GetDevice(name)
		if device == nil {
			n.Fatalf("CDI device %q does not resolve: %v", name, cache.GetErrors())
		}
		for _, edits := range []cdi.ContainerEdits{{ContainerEdits: &device.ContainerEdits}, {ContainerEdits: &device.GetSpec().ContainerEdits}} {
			for _, d := range edits.DeviceNodes {
				if !slices.Contains(paths, d.Path) { // the spec's own edits hold for every device, once
					paths = append(paths, d.Path)
				}
			}
		}
	}
	slices.Sort(paths)
	return paths
}

// paths are the paths of device nodes, sorted.
func paths(devices []kubelet.Device) []string {
	var list []string
	for _, d := range devices {
		list = append(list, d.Host)
	}
	slices.Sort(list)
	return list
}

func TestC53CDI(t *testing.T) {
	for name, tt := range map[string]struct {
		o        node.Options
		take     corev1.Container
		devices  []string
		resolved []string
	}{
		"a slice": {
			take: node.Slice("app", 1, 25, 16384), devices: []string{"amd.com/gpu=card57"},
			resolved: []string{"/dev/dri/card57", "/dev/dri/renderD184", "/dev/kfd"},
		},
		"two whole GPUs": {
			take: node.Whole("app", 2), devices: []string{"amd.com/gpu=card49", "amd.com/gpu=card57"},
			resolved: []string{"/dev/dri/card49", "/dev/dri/card57", "/dev/dri/renderD176", "/dev/dri/renderD184", "/dev/kfd"},
		},
		"a partition": {
			o: partitionMode("mi300x-cpx-8", 64), take: node.Whole("app", 1), devices: []string{"amd.com/gpu=card63"},
			resolved: []string{"/dev/dri/card63", "/dev/dri/renderD191", "/dev/kfd"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tt.o.CDI = true
			n := lab.Start(t, tt.o)
			s := n.MustPlace(n.Pod("pod", tt.take))
			app := s.Containers["app"]
			if !slices.Equal(app.CDIDevices, tt.devices) || len(app.Devices) > 0 {
				t.Errorf("CDI devices %q and device nodes %v, want %q and none", app.CDIDevices, app.Devices, tt.devices)
			}
			if got := resolve(n, app.CDIDevices); !slices.Equal(got, tt.resolved) {
				t.Errorf("they are %q, want %q", got, tt.resolved)
			}
			n.Check()

			// The spec says no later version than it needs, for old runtimes.
			spec := filepath.Join(n.CDIDir(), "amd.com-gpu.json")
			data, err := os.ReadFile(spec)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(data), `"cdiVersion":"0.3.0"`) {
				t.Errorf("the spec's version is not 0.3.0: %s", data)
			}

			// Turned off: device nodes again; the spec stays for containers that
			// restart.
			n.StopPlugin()
			n.StartPlugin("-cdi_spec_dir=")
			if n.Kubelet.DeviceIDs(s.Pod.UID, "app") == nil {
				t.Error("the pod lost its devices")
			}
			later := n.MustPlace(n.Pod("later", tt.take))
			if app := later.Containers["app"]; len(app.CDIDevices) > 0 || len(paths(app.Devices)) != len(tt.resolved) {
				t.Errorf("with CDI off: CDI devices %q, device nodes %v", app.CDIDevices, paths(app.Devices))
			}
			if _, err := os.Stat(spec); err != nil {
				t.Errorf("the spec is gone with CDI: %v", err)
			}
			n.Check()
			resolve(n, app.CDIDevices)
		})
	}
}

// A spec that somebody removed is back before a pod is told names of it.
func TestCDISpecIsWrittenAgain(t *testing.T) {
	n := lab.Start(t, node.Options{CDI: true, Flags: []string{"-pulse=0"}})
	if err := os.Remove(filepath.Join(n.CDIDir(), "amd.com-gpu.json")); err != nil {
		t.Fatal(err)
	}
	s := n.MustPlace(n.Pod("pod", node.Slice("app", 1, 25, 16384)))
	resolve(n, s.Containers["app"].CDIDevices)
	n.Check()
	if phase := n.Notes(s.Pod)[annotations.BindPhaseKey]; phase != "success" {
		t.Errorf("bind phase %q", phase)
	}
}
