package dmem

import (
	"fmt"
	"path"
	"strings"
)

// QoS is a pod's quality of service class as Kubernetes spells it in
// status.qosClass. Kubelet groups pods' cgroups by it. "" is unknown: all
// classes are looked through.
type QoS string

// The classes.
const (
	Guaranteed QoS = "Guaranteed"
	Burstable  QoS = "Burstable"
	BestEffort QoS = "BestEffort"
)

// Driver is kubelet's cgroupDriver, which decides how cgroups are named.
type Driver string

// The drivers.
const (
	Systemd  Driver = "systemd"
	Cgroupfs Driver = "cgroupfs"
)

// Pod is what kubelet names a pod's cgroup after.
type Pod struct {
	// UID is metadata.uid; for a mirror pod the value of the annotation
	// kubernetes.io/config.hash, which is the uid kubelet knows a static pod
	// by.
	UID string
	QoS QoS
}

// PodPath is the cgroup of a pod, relative to the cgroup2 mount, for a kubelet
// with the default cgroup root. It is an error if the class is unknown or the
// uid could not be part of a path.
func PodPath(d Driver, p Pod) (string, error) {
	if err := p.check(); err != nil {
		return "", err
	}
	if p.QoS == "" {
		return "", fmt.Errorf("cgroup of pod %q: want a QoS class, have none", p.UID)
	}
	switch d {
	case Systemd:
		return podUnder(KubepodsSlice, p.UID, p.QoS), nil
	case Cgroupfs:
		return podUnder("kubepods", p.UID, p.QoS), nil
	}
	return "", fmt.Errorf("cgroup of pod %q: want driver %q or %q, have %q", p.UID, Systemd, Cgroupfs, d)
}

func (p Pod) check() error {
	if p.UID == "" || len(p.UID) > 128 || strings.Trim(p.UID, uidChars) != "" {
		return fmt.Errorf("cgroup of pod: want a uid of letters, digits and dashes, have %q", p.UID)
	}
	switch p.QoS {
	case "", Guaranteed, Burstable, BestEffort:
		return nil
	}
	return fmt.Errorf("cgroup of pod %q: want QoS class %s, %s or %s, have %q", p.UID, Guaranteed, Burstable, BestEffort, p.QoS)
}

const uidChars = "-0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// qosSlice is the directory of a class below the cgroup of all pods; the pods
// of class Guaranteed are directly in that.
func qosSlice(root string, q QoS) string {
	class := strings.ToLower(string(q))
	switch stem, systemd := strings.CutSuffix(path.Base(root), ".slice"); {
	case q == Guaranteed:
		return root
	case systemd:
		return path.Join(root, stem+"-"+class+".slice")
	}
	return path.Join(root, class)
}

// podUnder is a pod's cgroup below root, the cgroup of all pods. Under systemd
// a slice's name repeats its parents' names and "-" means "below", so the
// dashes of the uid become underscores.
func podUnder(root, uid string, q QoS) string {
	dir := qosSlice(root, q)
	if stem, ok := strings.CutSuffix(path.Base(dir), ".slice"); ok {
		return path.Join(dir, stem+"-pod"+strings.ReplaceAll(uid, "-", "_")+".slice")
	}
	return path.Join(dir, "pod"+uid)
}

// isKubepods reports whether a directory's name is that of a cgroup of all
// pods. A kubelet with a cgroup root of its own (kind: kubelet.slice) has its
// name in front.
func isKubepods(name string) bool {
	return name == "kubepods" || name == KubepodsSlice || strings.HasSuffix(name, "-"+KubepodsSlice)
}

// containerID takes the container's id out of a cgroup's name below a pod's:
// cri-containerd-<id>.scope, crio-<id>.scope, docker-<id>.scope and
// cri-dockerd-<id>.scope under systemd, the id alone or with crio- under
// cgroupfs. CRI-O's monitors (crio-conmon-<id>.scope) are no containers.
func containerID(name string) (string, bool) {
	name = strings.TrimSuffix(name, ".scope")
	if i := strings.LastIndexByte(name, '-'); i >= 0 {
		switch name[:i] {
		case "cri-containerd", "crio", "docker", "cri-dockerd":
			name = name[i+1:]
		default:
			return "", false
		}
	}
	return name, len(name) == 64 && isHex(name)
}
