package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"sort"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/Project-HAMi/hami-amd/amd"
	"github.com/Project-HAMi/hami-amd/annotations"
)

// Change is a change to a pod with which it would fit.
type Change struct {
	// Container is whose limits change; "" for all that ask, or none.
	Container string `json:"container,omitempty"`
	// Limits are the new ones, by resource, of a Container; 0 is to take one off.
	Limits map[string]string `json:"limits,omitempty"`
	// Without is the annotation to take off the pod.
	Without string `json:"without,omitempty"`
	// Text says the change in one line.
	Text string `json:"text"`
	// Node is where the pod would go.
	Node string `json:"node"`
}

// shrinker looks for the largest requests that fit.
type shrinker struct {
	ledger  *amd.Ledger
	devices *amd.Devices
	pod     *corev1.Pod // as admitted
	options amd.ScheduleOptions
}

// maxShrunk is how many containers of a pod are tried; each takes some dozens of
// scheduling decisions.
const maxShrunk = 8

// changes are the largest requests that fit, each smaller in one respect. most
// is the memory of the largest device.
func (s *shrinker) changes(most int32) []Change {
	var list []Change
	asking, helps := 0, false
	for i, ctr := range containersOf(s.pod) {
		req, err := s.devices.Request(ctr)
		if err != nil || req.Count == 0 {
			continue
		}
		if asking++; asking > maxShrunk {
			break
		}
		changes := s.container(i, ctr.Name, req, most)
		list = append(list, changes...)
		helps = helps || slices.ContainsFunc(changes, func(c Change) bool { return c.Limits[s.devices.Config().ResourceCountName] == "" })
	}
	if !helps && asking > 0 && asking <= maxShrunk {
		list = append(list, s.together(most)...)
	}
	return append(list, s.relaxed()...)
}

// container tries one container: less memory, fewer CUs, fewer GPUs.
func (s *shrinker) container(i int, name string, req amd.Request, most int32) (list []Change) {
	config := s.devices.Config()
	memory := memoryOf(req, most)
	if n, node := s.most(int(memory)-1, func(pod *corev1.Pod, n int) { s.setMemory(containersOf(pod)[i], n) }); n > 0 {
		memory, limits := s.memoryLimit(req, n)
		text := fmt.Sprintf("container %s: %s, the rest as it is", short(name), memory)
		list = append(list, Change{Container: name, Limits: limits, Text: text, Node: node})
	}
	if n, node := s.most(int(req.Cores)-1, func(pod *corev1.Pod, n int) { set(containersOf(pod)[i], config.ResourceCoreName, n) }); n > 0 {
		text := fmt.Sprintf("container %s: %s: %d, the rest as it is", short(name), config.ResourceCoreName, n)
		list = append(list, Change{Container: name, Limits: limit(config.ResourceCoreName, n), Text: text, Node: node})
	}
	// A pod that asks for thousands fits nowhere with a few less.
	const mostGPUs = 1024
	if n, node := s.most(min(int(req.Count)-1, mostGPUs), func(pod *corev1.Pod, n int) { set(containersOf(pod)[i], config.ResourceCountName, n) }); n > 0 {
		text := fmt.Sprintf("container %s: %s: %d, the rest as it is", short(name), config.ResourceCountName, n)
		list = append(list, Change{Container: name, Limits: limit(config.ResourceCountName, n), Text: text, Node: node})
	}
	return list
}

// together tries less memory and fewer CUs at once, of all containers alike. A
// container that is alone then gets as much memory as goes with the CUs, and as
// many CUs as go with that.
func (s *shrinker) together(most int32) []Change {
	config := s.devices.Config()
	alone, asking := -1, 0
	shrink := func(pod *corev1.Pod, percent int) {
		alone, asking = -1, 0
		for i, ctr := range containersOf(pod) {
			req, err := s.devices.Request(ctr)
			if err != nil || req.Count == 0 {
				continue
			}
			alone, asking = i, asking+1
			s.setMemory(ctr, max(int(memoryOf(req, most))*percent/100, 1))
			if req.Cores > 0 {
				set(ctr, config.ResourceCoreName, max(int(req.Cores)*percent/100, 1))
			}
		}
	}
	percent, node := s.most(99, shrink)
	switch {
	case percent == 0:
		return nil
	case asking > 1:
		text := fmt.Sprintf("all containers: %d %% of the memory and of the CUs they ask for", percent)
		return []Change{{Text: text, Node: node}}
	}
	pod := s.pod.DeepCopy()
	shrink(pod, percent)
	ctr := containersOf(pod)[alone]
	req, err := s.devices.Request(ctr)
	if err != nil || req.Cores == 0 {
		return nil // memory alone has been tried
	}
	whole, _ := s.devices.Request(containersOf(s.pod)[alone]) // as above
	both := func(mib, cores int) func(*corev1.Pod, int) {
		return func(pod *corev1.Pod, n int) {
			ctr := containersOf(pod)[alone]
			s.setMemory(ctr, cmp.Or(mib, n))
			set(ctr, config.ResourceCoreName, cmp.Or(cores, n))
		}
	}
	mib, _ := s.most(int(memoryOf(whole, most))-1, both(0, int(req.Cores)))
	cores, node := s.most(int(whole.Cores)-1, both(mib, 0))
	if mib == 0 || cores == 0 {
		return nil
	}
	memory, limits := s.memoryLimit(whole, mib)
	limits[config.ResourceCoreName] = fmt.Sprint(cores)
	text := fmt.Sprintf("container %s: %s, %s: %d, the rest as it is", short(ctr.Name), memory, config.ResourceCoreName, cores)
	return []Change{{Container: ctr.Name, Limits: limits, Text: text, Node: node}}
}

// relaxed tries the pod without each of its wishes.
func (s *shrinker) relaxed() (list []Change) {
	for _, key := range [...]string{
		annotations.UseTypeKey, annotations.NoUseTypeKey, annotations.UseUUIDKey, annotations.NoUseUUIDKey,
		amd.GPUIndexKey, annotations.NUMABindKey, annotations.GPUSchedulerPolicyKey,
	} {
		if _, ok := s.pod.Annotations[key]; !ok {
			continue
		}
		pod := s.pod.DeepCopy()
		delete(pod.Annotations, key)
		if node := s.fits(pod); node != "" {
			list = append(list, Change{Without: key, Text: "without annotation " + key, Node: node})
		}
	}
	return list
}

// most is the largest n from 1 to upper with which the changed pod fits, and
// the node; 0 if there is none. What fits with n fits with less.
func (s *shrinker) most(upper int, change func(pod *corev1.Pod, n int)) (n int, node string) {
	try := func(n int) string {
		pod := s.pod.DeepCopy()
		change(pod, n)
		return s.fits(pod)
	}
	if upper < 1 || try(1) == "" {
		return 0, ""
	}
	// The first n that does not fit is one more.
	n = 1 + sort.Search(upper-1, func(i int) bool { return try(i+2) == "" })
	return n, try(n)
}

func (s *shrinker) fits(pod *corev1.Pod) (node string) {
	decision, err := s.ledger.Schedule(pod, s.options)
	if err != nil {
		return ""
	}
	return decision.Node
}

// memoryOf is the memory a request wants of the largest device.
func memoryOf(req amd.Request, most int32) int32 {
	switch {
	case req.MemoryMiB > 0:
		return req.MemoryMiB
	case req.MemoryPercent > 0:
		return int32(int64(most) * int64(req.MemoryPercent) / 100)
	}
	return most
}

// memoryLimit is memory in place of what a request has. Strict admission
// refuses a percentage beside it.
func (s *shrinker) memoryLimit(req amd.Request, mib int) (text string, limits map[string]string) {
	config := s.devices.Config()
	text, limits = fmt.Sprintf("%s: %d", config.ResourceMemoryName, mib), limit(config.ResourceMemoryName, mib)
	if req.MemoryPercent > 0 {
		text += " instead of " + config.ResourceMemoryPercentageName
		limits[config.ResourceMemoryPercentageName] = "0"
	}
	return text, limits
}

func (s *shrinker) setMemory(ctr *corev1.Container, mib int) {
	percentage := corev1.ResourceName(s.devices.Config().ResourceMemoryPercentageName)
	delete(ctr.Resources.Limits, percentage)
	delete(ctr.Resources.Requests, percentage)
	set(ctr, s.devices.Config().ResourceMemoryName, mib)
}

// set sets a limit; admission has made the container's limits.
func set(ctr *corev1.Container, name string, n int) {
	ctr.Resources.Limits[corev1.ResourceName(name)] = *resource.NewQuantity(int64(n), resource.DecimalSI)
}

func limit(name string, n int) map[string]string {
	return map[string]string{name: fmt.Sprint(n)}
}
