package drawtest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/cumask"
)

// plant breaks the cluster: two pods claim the same CUs, a mask leaves XCCs
// without a CU, a container has no mask, a grant names a GPU that its node does
// not have, a lock is left behind, a GPU is unhealthy and another is cordoned.
func plant(nodes []*corev1.Node, pods []*corev1.Pod) error {
	var slices []*corev1.Pod // of one container with a part of one GPU
	for _, pod := range pods {
		if strings.HasPrefix(pod.Name, "chat-") || strings.HasPrefix(pod.Name, "summarize-") {
			slices = append(slices, pod)
		}
	}
	const wanted = 4
	if len(slices) < wanted {
		return fmt.Errorf("planting: want %d pods with a slice, have %d", wanted, len(slices))
	}
	grants, err := annotations.DecodePod(slices[0].Annotations[annotations.AllocatedKey])
	if err != nil {
		return err
	}
	neighbour := grants[0][0]
	if err := remask(slices, pods, neighbour.UUID); err != nil {
		return err
	}
	last := slices[len(slices)-1]
	for _, key := range []string{annotations.CUAllocatedKey, annotations.CUContainersKey} {
		delete(last.Annotations, key)
	}
	gone := slices[len(slices)-2]
	if err := moveAway(gone); err != nil {
		return err
	}
	nodes[0].Annotations[annotations.NodeLockKey] = annotations.NodeLock{Time: Now().Add(-20 * time.Minute), Namespace: "llm", Name: "chat-deleted"}.String()
	return damage(nodes[len(nodes)-1])
}

// remask leaves XCC 7 out of the first pod's mask, and gives another pod CUs
// that somebody else on its GPU holds.
func remask(slices, pods []*corev1.Pod, device string) error {
	first := slices[0]
	taken := cumask.Set{}
	for _, pod := range pods {
		taken = taken.Union(held(pod)[device])
	}
	mask := held(first)[device]
	want := mask.Len()
	for cu := range mask.All() {
		if cu%8 == 7 {
			mask = mask.Minus(cumask.Of(cu))
		}
	}
	for cu := 0; mask.Len() < want && cu < 304; cu++ {
		if cu%8 != 7 && !taken.Has(cu) {
			mask = mask.Union(cumask.Of(cu))
		}
	}
	if err := set(first, device, mask); err != nil {
		return err
	}
	for _, pod := range slices[1:] {
		for id, cus := range held(pod) {
			for _, other := range slices[1:] {
				if mine, ok := held(other)[id]; other != pod && ok && id != device && mine.Len() == cus.Len() {
					return set(other, id, cus)
				}
			}
		}
	}
	return errors.New("planting: no two slices of one size on one GPU")
}

func held(pod *corev1.Pod) map[string]cumask.Set {
	cus, _ := annotations.DecodeCUs(pod.Annotations[annotations.CUAllocatedKey]) // written here
	return cus
}

// set replaces the mask of a pod's only container.
func set(pod *corev1.Pod, device string, cus cumask.Set) (err error) {
	containers, err := annotations.DecodeContainerCUs(pod.Annotations[annotations.CUContainersKey])
	if err != nil {
		return err
	}
	for name, ctr := range containers {
		ctr.CUs = map[string]cumask.Set{device: cus}
		containers[name] = ctr
	}
	if pod.Annotations[annotations.CUContainersKey], err = annotations.EncodeContainerCUs(containers); err != nil {
		return err
	}
	pod.Annotations[annotations.CUAllocatedKey], err = annotations.EncodeCUs(map[string]cumask.Set{device: cus})
	return err
}

// moveAway makes a pod's grant name a GPU that has been replaced.
func moveAway(pod *corev1.Pod) error {
	for id := range held(pod) {
		old := "ff" + id[2:]
		for key, value := range pod.Annotations {
			pod.Annotations[key] = strings.ReplaceAll(value, id, old)
		}
	}
	return nil
}

// damage registers a node's first GPU as unhealthy and cordons the second.
func damage(node *corev1.Node) error {
	devices, err := annotations.DecodeDevices(node.Annotations[annotations.NodeRegisterKey])
	if err != nil {
		return err
	}
	devices[0].Health = false
	node.Annotations[annotations.DeviceCordonKey] = devices[1].ID
	node.Annotations[annotations.NodeRegisterKey], err = annotations.EncodeDevices(devices)
	return err
}
