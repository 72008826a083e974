package dmem

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/Project-HAMi/hami-amd/dmem/dmemtest"
	"github.com/google/go-cmp/cmp"
)

func TestFindPod(t *testing.T) {
	const kind = "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod6a9c1f0e_58a1_4c39_9a4e_0d5f2b7c1e11.slice"
	tests := map[string]string{
		"systemd":                        podDir,
		"cgroupfs":                       "kubepods/burstable/pod" + podUID,
		"kind":                           kind,
		"kind on a host seen as a whole": "system.slice/docker-" + strings.Repeat("ab", 32) + ".scope/" + kind,
		"a cgroup root with cgroupfs":    "kubelet/kubepods/burstable/pod" + podUID,
	}
	for name, dir := range tests {
		t.Run(name, func(t *testing.T) {
			k, tree := node(t, dmemtest.Options{})
			if _, err := tree.FindPod(pod); !errors.Is(err, ErrNoCgroup) || !errors.Is(err, fs.ErrNotExist) {
				t.Fatalf("before it exists: %v", err)
			}
			must(t, k.Mkdir(dir))
			for _, q := range []QoS{Burstable, ""} {
				if got, err := tree.FindPod(Pod{podUID, q}); err != nil || got != dir {
					t.Errorf("class %q: got %q, %v\nwant %q", q, got, err, dir)
				}
			}
			if got, err := tree.FindPod(Pod{podUID, Guaranteed}); err == nil {
				t.Errorf("as guaranteed: found %q", got)
			}
		})
	}
}

// A container that may make cgroups of its own cannot pass for another pod.
func TestFindPodIsNotFooled(t *testing.T) {
	k, tree := nodeWithPod(t, dmemtest.Options{})
	const other = "11111111-2222-3333-4444-555555555555"
	must(t, k.Mkdir(podDir+"/cri-containerd-"+strings.Repeat("ab", 32)+".scope/kubepods.slice/kubepods-pod11111111_2222_3333_4444_555555555555.slice"))
	if got, err := tree.FindPod(Pod{UID: other}); err == nil {
		t.Errorf("found %q", got)
	}
	if _, err := tree.FindPod(Pod{UID: "../x"}); err == nil || errors.Is(err, ErrNoCgroup) {
		t.Errorf("a uid that climbs: %v", err)
	}
}

func TestContainers(t *testing.T) {
	k, tree := nodeWithPod(t, dmemtest.Options{})
	a, b := strings.Repeat("0a", 32), strings.Repeat("0b", 32)
	for _, dir := range []string{"cri-containerd-" + b + ".scope", "cri-containerd-" + a + ".scope", "crio-conmon-" + a + ".scope", "else"} {
		must(t, k.Mkdir(podDir+"/"+dir))
	}
	got, err := tree.Containers(podDir)
	must(t, err)
	want := []Container{
		{a, podDir + "/cri-containerd-" + a + ".scope"},
		{b, podDir + "/cri-containerd-" + b + ".scope"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("containers (-want +got):\n%s", diff)
	}
	if _, err := tree.Containers("kubepods.slice/gone"); !errors.Is(err, ErrNoCgroup) {
		t.Errorf("of no pod: %v", err)
	}
}
