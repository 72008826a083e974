package dmem

import (
	"strings"
	"testing"
)

func TestPodPath(t *testing.T) {
	const uid = "6a9c1f0e-58a1-4c39-9a4e-0d5f2b7c1e11"
	tests := map[string]struct {
		driver Driver
		qos    QoS
		want   string
	}{
		"systemd guaranteed":  {Systemd, Guaranteed, "kubepods.slice/kubepods-pod6a9c1f0e_58a1_4c39_9a4e_0d5f2b7c1e11.slice"},
		"systemd burstable":   {Systemd, Burstable, "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod6a9c1f0e_58a1_4c39_9a4e_0d5f2b7c1e11.slice"},
		"systemd besteffort":  {Systemd, BestEffort, "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod6a9c1f0e_58a1_4c39_9a4e_0d5f2b7c1e11.slice"},
		"cgroupfs guaranteed": {Cgroupfs, Guaranteed, "kubepods/pod6a9c1f0e-58a1-4c39-9a4e-0d5f2b7c1e11"},
		"cgroupfs burstable":  {Cgroupfs, Burstable, "kubepods/burstable/pod6a9c1f0e-58a1-4c39-9a4e-0d5f2b7c1e11"},
		"cgroupfs besteffort": {Cgroupfs, BestEffort, "kubepods/besteffort/pod6a9c1f0e-58a1-4c39-9a4e-0d5f2b7c1e11"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := PodPath(tt.driver, Pod{uid, tt.qos})
			if err != nil || got != tt.want {
				t.Errorf("got %q, %v\nwant %q", got, err, tt.want)
			}
		})
	}
}

func TestPodPathRefuses(t *testing.T) {
	tests := map[string]struct {
		driver Driver
		pod    Pod
		want   string
	}{
		"no uid":               {Systemd, Pod{"", Burstable}, `cgroup of pod: want a uid of letters, digits and dashes, have ""`},
		"a uid that climbs":    {Systemd, Pod{"../../x", Burstable}, `cgroup of pod: want a uid of letters, digits and dashes, have "../../x"`},
		"a uid with a dot":     {Cgroupfs, Pod{"a.b", Burstable}, `cgroup of pod: want a uid of letters, digits and dashes, have "a.b"`},
		"a uid too long":       {Cgroupfs, Pod{strings.Repeat("a", 129), Burstable}, `cgroup of pod: want a uid of letters, digits and dashes, have "` + strings.Repeat("a", 129) + `"`},
		"no class":             {Systemd, Pod{"a", ""}, `cgroup of pod "a": want a QoS class, have none`},
		"a class in lowercase": {Systemd, Pod{"a", "burstable"}, `cgroup of pod "a": want QoS class Guaranteed, Burstable or BestEffort, have "burstable"`},
		"no driver":            {"", Pod{"a", Burstable}, `cgroup of pod "a": want driver "systemd" or "cgroupfs", have ""`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := PodPath(tt.driver, tt.pod)
			if got != "" || err == nil || err.Error() != tt.want {
				t.Errorf("got %q, %v\nwant %s", got, err, tt.want)
			}
		})
	}
}

func TestContainerID(t *testing.T) {
	id := strings.Repeat("0f", 32)
	for _, name := range []string{
		"cri-containerd-" + id + ".scope", "crio-" + id + ".scope", "docker-" + id + ".scope",
		"cri-dockerd-" + id + ".scope", id, "crio-" + id,
	} {
		if got, ok := containerID(name); !ok || got != id {
			t.Errorf("containerID(%q) = %q, %v", name, got, ok)
		}
	}
	for _, name := range []string{
		"", "crio-conmon-" + id + ".scope", id[1:], id + "0", strings.ToUpper(id), "cri-containerd-.scope",
		"dmem.max", "podabc", "kubepods-burstable.slice", "other-" + id + ".scope",
	} {
		if got, ok := containerID(name); ok {
			t.Errorf("containerID(%q) = %q, want none", name, got)
		}
	}
}
