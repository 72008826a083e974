package node

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/cumask"
	"github.com/Project-HAMi/hami-amd/partition"
)

// Settle waits until the node lock is gone, as it must be some seconds after
// the last admission, whatever became of it.
func (n *Node) Settle() {
	n.Helper()
	n.Eventually("the node lock is released", func() error {
		if lock := n.Lock(); lock != "" {
			return fmt.Errorf("it is %q", lock)
		}
		return nil
	})
}

// Check fails the test where the node is not as it must be at rest:
//
//   - no node lock is left;
//   - no CU is held by two pods that have not ended, neither by what the
//     annotations say nor by the masks the containers were started with;
//   - every container that runs got what its pod was granted: the devices in
//     order, as many CUs as granted in a mask that its GPU can take, the memory
//     limit and the hook for a slice and none of these for a whole device; and
//     the annotations say the same;
//   - a pod that runs has no grant left to serve, and its bind phase is success;
//   - a pod that was refused says why;
//   - the pods together have no more shares and memory than each device has.
func (n *Node) Check() {
	n.Helper()
	pods, served := n.pods()
	s := state{node: n.Object(), pods: pods, served: served, hardware: n.hardware()}
	for _, err := range s.check() {
		n.Error(err)
	}
}

// CheckPlaced checks a pod that Place was called for and the node with it, while
// the plugin is there: either the pod was served right, if need be by starting
// its containers now, or it was refused cleanly, with a message, and an equal
// pod is served.
func (n *Node) CheckPlaced(s *Served, err error) {
	n.Helper()
	if errors.Is(err, ErrNotStarted) {
		n.Rerun(s)
		err = nil
	}
	n.Settle()
	n.Check()
	if err == nil || s.Pod == nil {
		return
	}
	again := &corev1.Pod{}
	again.Namespace, again.Name = s.Pod.Namespace, s.Pod.Name+"-again"
	again.Spec = *s.Pod.Spec.DeepCopy()
	again.Spec.NodeName = ""
	retried, retryErr := n.Place(again)
	if retryErr != nil {
		n.Errorf("pod %s was refused (%v), and once more: %v", s.Pod.Name, err, retryErr)
	}
	n.Settle()
	n.Check()
	n.Delete(retried.Pod)
}

// hardware is what the machine has, by device ID.
func (n *Node) hardware() map[string]partition.Registered {
	n.Helper()
	devices := make(map[string]partition.Registered)
	inventory := n.Inventory()
	for _, mode := range []partition.OperatingMode{partition.ModeCU, partition.ModePartition} {
		all, err := inventory.Registered(partition.RegisterOptions{Mode: mode, NodeName: n.Name})
		if err != nil {
			n.Fatal(err)
		}
		for _, d := range all {
			devices[d.ID] = d
		}
	}
	return devices
}

// state is a node and its pods at one moment.
type state struct {
	node     *corev1.Node
	pods     []corev1.Pod
	served   map[string]*Served              // by uid
	hardware map[string]partition.Registered // by device ID

	devices  map[string]annotations.Device
	recorded map[string]*cumask.Occupancy // by the annotations
	masked   map[string]*cumask.Occupancy // by the environments
	shares   map[string]int
	memory   map[string]int
}

func (s *state) check() []error {
	var errs []error
	if lock, there := s.node.Annotations[annotations.NodeLockKey]; there {
		errs = append(errs, fmt.Errorf("node lock %q is left", lock))
	}
	if err := s.readDevices(); err != nil {
		return append(errs, err)
	}
	for i := range s.pods {
		pod := &s.pods[i]
		for _, err := range s.checkPod(pod) {
			errs = append(errs, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(s.devices)) {
		d := s.devices[id]
		if s.shares[id] > int(d.Count) {
			errs = append(errs, fmt.Errorf("device %s: %d shares are granted, it has %d", id, s.shares[id], d.Count))
		}
		if s.memory[id] > int(d.Devmem) {
			errs = append(errs, fmt.Errorf("device %s: %d MiB are granted, it has %d", id, s.memory[id], d.Devmem))
		}
	}
	return errs
}

func (s *state) readDevices() error {
	s.devices = make(map[string]annotations.Device)
	s.recorded, s.masked = make(map[string]*cumask.Occupancy), make(map[string]*cumask.Occupancy)
	s.shares, s.memory = make(map[string]int), make(map[string]int)
	text, there := s.node.Annotations[annotations.NodeRegisterKey]
	if !there {
		return nil
	}
	devices, err := annotations.DecodeDevices(text)
	if err != nil {
		return fmt.Errorf("register annotation: %w", err)
	}
	for _, d := range devices {
		s.devices[d.ID] = d
		s.recorded[d.ID], s.masked[d.ID] = cumask.NewOccupancy(d.Geometry()), cumask.NewOccupancy(d.Geometry())
	}
	return nil
}

// granted is a container with its grants.
type granted struct {
	corev1.Container
	init   bool // an ordinary init container
	grants []annotations.Grant
}

func (s *state) checkPod(pod *corev1.Pod) (errs []error) {
	served := s.served[string(pod.UID)]
	if pod.Status.Phase == corev1.PodFailed && served == nil && pod.Status.Message == "" {
		errs = append(errs, errors.New("it was refused without a message"))
	}
	text, scheduled := pod.Annotations[annotations.AllocatedKey]
	if !scheduled || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return errs
	}
	grants, err := annotations.DecodePod(text)
	if err != nil {
		return append(errs, err)
	}
	containers, err := align(pod, grants)
	if err != nil {
		return append(errs, err)
	}
	s.addPeak(containers)
	holder := pod.Namespace + "/" + pod.Name
	held, err := annotations.DecodeCUs(defaultTo(pod.Annotations[annotations.CUAllocatedKey], "{}"))
	if err != nil {
		return append(errs, err)
	}
	errs = append(errs, add(s.recorded, holder, held, "annotation")...)
	if served == nil {
		return errs
	}

	if left, err := annotations.DecodePod(pod.Annotations[annotations.ToAllocateKey]); err != nil || !left.Served() {
		errs = append(errs, fmt.Errorf("it runs and waits for %q (%v)", pod.Annotations[annotations.ToAllocateKey], err))
	}
	if phase := pod.Annotations[annotations.BindPhaseKey]; phase != string(annotations.BindSuccess) {
		errs = append(errs, fmt.Errorf("it runs in bind phase %q", phase))
	}
	parts, err := annotations.DecodeContainerCUs(defaultTo(pod.Annotations[annotations.CUContainersKey], "{}"))
	if err != nil {
		return append(errs, err)
	}
	union, masks := make(map[string]cumask.Set), make(map[string]cumask.Set)
	for _, c := range containers {
		for id, cus := range parts[c.Name].CUs {
			union[id] = union[id].Union(cus)
		}
		got, problems := s.checkContainer(c, served.Containers[c.Name], parts[c.Name])
		for id, cus := range got {
			masks[id] = masks[id].Union(cus)
		}
		for _, err := range problems {
			errs = append(errs, fmt.Errorf("container %s: %w", c.Name, err))
		}
	}
	if !maps.Equal(union, held) {
		errs = append(errs, fmt.Errorf("its containers hold %v, it holds %v", union, held))
	}
	errs = append(errs, concurrent(containers, parts)...)
	return append(errs, add(s.masked, holder, masks, "environment")...)
}

func defaultTo(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}

// align gives each container its grants: the k-th entry that is not empty
// belongs to the k-th container that asks.
func align(pod *corev1.Pod, grants annotations.PodGrants) ([]granted, error) {
	var given [][]annotations.Grant
	for _, g := range grants {
		if len(g) > 0 {
			given = append(given, g)
		}
	}
	var list []granted
	for i, c := range all(pod) {
		g := granted{Container: c, init: i < len(pod.Spec.InitContainers) && c.RestartPolicy == nil}
		if asks, ok := c.Resources.Limits[partition.ResourceGPU]; ok && !asks.IsZero() {
			if len(given) == 0 {
				return nil, fmt.Errorf("container %s was granted nothing", c.Name)
			}
			g.grants, given = given[0], given[1:]
		}
		list = append(list, g)
	}
	if len(given) > 0 {
		return nil, fmt.Errorf("%d grants belong to no container", len(given))
	}
	return list, nil
}

// groups yields the containers that run at the same time: the app containers
// with all sidecars, and each ordinary init container with the sidecars before
// it.
func groups(containers []granted) [][]granted {
	var sidecars []granted
	var all [][]granted
	for _, c := range containers {
		if c.init {
			all = append(all, append(slices.Clone(sidecars), c))
		} else {
			sidecars = append(sidecars, c) // or an app container, which no init container follows
		}
	}
	return append(all, sidecars)
}

// addPeak adds the most that a pod has at once to what its devices must give.
func (s *state) addPeak(containers []granted) {
	shares, memory := make(map[string]int), make(map[string]int)
	for _, group := range groups(containers) {
		groupShares, groupMemory := make(map[string]int), make(map[string]int)
		for _, c := range group {
			for _, g := range c.grants {
				groupShares[g.UUID]++
				groupMemory[g.UUID] += int(g.MemoryMiB)
			}
		}
		for id := range groupShares {
			shares[id] = max(shares[id], groupShares[id])
			memory[id] = max(memory[id], groupMemory[id])
		}
	}
	for id := range shares {
		s.shares[id] += shares[id]
		s.memory[id] += memory[id]
	}
}

// concurrent checks that containers of a pod that run at the same time hold
// different CUs.
func concurrent(containers []granted, parts map[string]annotations.ContainerCUs) (errs []error) {
	for _, group := range groups(containers) {
		held := make(map[string]cumask.Set)
		for _, c := range group {
			for id, cus := range parts[c.Name].CUs {
				if both := held[id].Intersect(cus); !both.Empty() {
					errs = append(errs, fmt.Errorf("container %s: device %s: another container that runs at the same time has CUs %s too", c.Name, id, both))
				}
				held[id] = held[id].Union(cus)
			}
		}
	}
	return errs
}

// add notes that a pod holds CUs and says whose they are already.
func add(occupied map[string]*cumask.Occupancy, holder string, held map[string]cumask.Set, source string) (errs []error) {
	for _, id := range slices.Sorted(maps.Keys(held)) {
		o := occupied[id]
		if o == nil {
			errs = append(errs, fmt.Errorf("%s: device %s is not registered", source, id))
			continue
		}
		if err := o.Add(holder, held[id]); err != nil {
			errs = append(errs, fmt.Errorf("%s: device %s: %w", source, id, err))
		}
	}
	return errs
}

// list splits at commas; no text is no entry.
func list(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}
