package chartcheck

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// An icon would be a picture that is fetched from somewhere.
const noIcon = "icon is recommended"

func TestLint(t *testing.T) {
	version, err := chartutil.ParseKubeVersion(kubernetesVersion)
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range cases(t) {
		t.Run(name, func(t *testing.T) {
			for _, m := range lint.AllWithKubeVersion(chartDir, v, "kube-system", version).Messages {
				if m.Severity > support.InfoSev || m.Err.Error() != noIcon {
					t.Error(m)
				}
			}
		})
	}
}

// Every manifest is known to Kubernetes down to its last member, and reads as
// the file in testdata/rendered.
func TestRendered(t *testing.T) {
	for name, v := range cases(t) {
		t.Run(name, func(t *testing.T) {
			got := render(t, v)
			if _, err := decode(got); err != nil {
				t.Error(err)
			}
			compareFile(t, filepath.Join(example, "testdata/rendered", name+".yaml"), got)
		})
	}
	rendered, err := filepath.Glob(example + "/testdata/rendered/*")
	if err != nil {
		t.Fatal(err)
	}
	if len(rendered) != len(cases(t)) {
		t.Errorf("%d rendered files for %d files of values", len(rendered), len(cases(t)))
	}
}

// What the pods must have whatever the values are. An upgrade cannot change a
// selector, not even that of HAMi's earlier chart.
func TestPods(t *testing.T) {
	selectors := map[string]string{"amd-gpu-device-plugin-daemonset": "amd-gpu-dp-ds", "k8s-vgpu-monitor": "k8s-vgpu-monitor"}
	for name, v := range cases(t) {
		t.Run(name, func(t *testing.T) {
			objects, err := decode(render(t, v))
			if err != nil {
				t.Fatal(err)
			}
			found := 0
			for _, object := range objects {
				if ds, ok := object.(*appsv1.DaemonSet); ok {
					checkPods(t, ds, selectors[ds.Name])
					found++
				}
			}
			if found == 0 {
				t.Error("no DaemonSet")
			}
		})
	}
}

func checkPods(t *testing.T, ds *appsv1.DaemonSet, selector string) {
	t.Helper()
	pod := ds.Spec.Template
	if diff := cmp.Diff(map[string]string{"name": selector}, ds.Spec.Selector.MatchLabels); diff != "" {
		t.Errorf("%s: selector (-want +got):\n%s", ds.Name, diff)
	}
	for label, want := range map[string]string{"name": selector, "hami.io/webhook": "ignore"} {
		if got := pod.Labels[label]; got != want {
			t.Errorf("%s: %s is %q, want %q", ds.Name, label, got, want)
		}
	}
	sources := map[string]corev1.Volume{}
	for _, volume := range pod.Spec.Volumes {
		sources[volume.Name] = volume
	}
	used := map[string]bool{}
	for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
		for _, err := range checkMounts(c, sources) {
			t.Error(err)
		}
		for _, m := range c.VolumeMounts {
			used[m.Name] = true
		}
	}
	for name := range sources {
		if !used[name] {
			t.Errorf("%s: volume %s is mounted nowhere", ds.Name, name)
		}
	}
}

// checkMounts looks for mounts of volumes that do not exist, two mounts at one
// place, and messages that would be left in a folder of the host.
func checkMounts(c corev1.Container, volumes map[string]corev1.Volume) []error {
	var out []error
	at := map[string]bool{}
	message := c.TerminationMessagePath
	if message == "" {
		message = corev1.TerminationMessagePathDefault
	}
	for _, m := range c.VolumeMounts {
		if _, ok := volumes[m.Name]; !ok {
			out = append(out, fmt.Errorf("%s mounts %q, which is no volume", c.Name, m.Name))
		}
		if at[m.MountPath] {
			out = append(out, fmt.Errorf("%s has two mounts at %s", c.Name, m.MountPath))
		}
		at[m.MountPath] = true
		if strings.HasPrefix(message, m.MountPath+"/") {
			out = append(out, fmt.Errorf("%s leaves its last words in %s, a mount", c.Name, message))
		}
	}
	return out
}
