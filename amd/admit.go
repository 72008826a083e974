package amd

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/Project-HAMi/hami-amd/annotations"
)

// Admission is what Admit found.
type Admission struct {
	// Asks reports whether a container asks for GPUs, so that the pod is HAMi's
	// to schedule.
	Asks bool
	// Notes are what the user or operator should know, one line each: what was
	// taken off the pod, what could not be seen and which wishes are ignored.
	Notes []string
}

// Admit is the mutation of a pod as it is created. It refuses what can never
// run or would lift limits, with a message its author can act on, and otherwise
// completes the pod in place:
//
//   - a container that names memory or cores gets the default number of GPUs,
//     and resources found only in its requests get limits as well, which
//     Kubernetes wants of extended resources;
//   - the priority resource becomes the variable AMD_TASK_PRIORITY;
//   - a slice's own LD_AUDIT is extended by the memory hook;
//   - a pod that asks for GPUs and names no runtime class gets the configured one;
//   - annotations and the label of the protocol are taken off: only scheduler
//     and plugin write them. Strict admission refuses the pod instead.
//
// Init containers are treated like all others. A refused pod is left as it was.
// Admitting a pod twice changes nothing more.
func (d *Devices) Admit(pod *corev1.Pod) (Admission, error) {
	forged, err := d.checkPod(pod)
	if err != nil {
		return Admission{}, err
	}
	containers := podContainers(pod)
	plans := make([]plan, len(containers))
	for i, ctr := range containers {
		if plans[i], err = d.plan(ctr); err != nil {
			return Admission{}, err
		}
	}
	var a Admission
	a.Notes = takeOff(pod, forged)
	for i, ctr := range containers {
		d.apply(pod, ctr, &plans[i])
		a.add(&plans[i])
	}
	a.addIgnored(pod)
	return a, nil
}

// AdmitContainer does for one container of the pod, and for the pod itself, what
// Admit does for all: it is for HAMi's webhook, which goes through the containers
// one at a time. ctr is a container of pod.
func (d *Devices) AdmitContainer(pod *corev1.Pod, ctr *corev1.Container) (Admission, error) {
	forged, err := d.checkPod(pod)
	if err != nil {
		return Admission{}, err
	}
	p, err := d.plan(ctr)
	if err != nil {
		return Admission{}, err
	}
	var a Admission
	a.Notes = takeOff(pod, forged)
	d.apply(pod, ctr, &p)
	a.add(&p)
	a.addIgnored(pod)
	return a, nil
}

func (a *Admission) add(p *plan) {
	a.Asks = a.Asks || p.asks
	if p.note != "" {
		a.Notes = append(a.Notes, p.note)
	}
}

// addIgnored notes wishes of a pod that asks for GPUs and that HAMi ignores.
func (a *Admission) addIgnored(pod *corev1.Pod) {
	if !a.Asks {
		return
	}
	for _, err := range ignoredWishes(pod.Annotations) {
		a.Notes = append(a.Notes, err.Error()+", which is ignored")
	}
}

func podContainers(pod *corev1.Pod) []*corev1.Container {
	containers := make([]*corev1.Container, 0, len(pod.Spec.InitContainers)+len(pod.Spec.Containers))
	for i := range pod.Spec.InitContainers {
		containers = append(containers, &pod.Spec.InitContainers[i])
	}
	for i := range pod.Spec.Containers {
		containers = append(containers, &pod.Spec.Containers[i])
	}
	return containers
}

// protocolPrefix starts the keys of this vendor's protocol.
const protocolPrefix = "hami.io/amd-"

// checkPod refuses annotations that cannot mean what was intended and lists
// those that only scheduler and plugin may write.
func (d *Devices) checkPod(pod *corev1.Pod) (forged []string, err error) {
	for _, name := range d.resourceNames() {
		if _, ok := pod.Annotations[name]; ok {
			return nil, fmt.Errorf("pod annotation %q has no effect: write %s under resources.limits of the container that needs the GPU", name, name)
		}
	}
	if err := d.checkPolicy(pod.Annotations); err != nil {
		return nil, err
	}
	for key := range pod.Annotations {
		switch key {
		case annotations.VGPUNodeKey, annotations.VGPUTimeKey, annotations.BindTimeKey, annotations.BindPhaseKey:
			forged = append(forged, key)
		default:
			if strings.HasPrefix(key, protocolPrefix) {
				forged = append(forged, key)
			}
		}
	}
	slices.Sort(forged)
	_, label := pod.Labels[annotations.VGPUNodeKey]
	switch {
	case !d.config.StrictAdmission:
		return forged, nil
	case len(forged) > 0:
		return nil, fmt.Errorf("pod annotation %.128q: want it unset: only the scheduler and the device plugin write it", forged[0])
	case label:
		return nil, fmt.Errorf("pod label %q: want it unset: only the scheduler writes it", annotations.VGPUNodeKey)
	}
	return forged, nil
}

func (d *Devices) resourceNames() []string {
	return []string{
		d.config.ResourceCountName, d.config.ResourceMemoryName, d.config.ResourceMemoryPercentageName,
		d.config.ResourceCoreName, d.config.ResourcePriorityName,
	}
}

// checkPolicy refuses device filters that nothing can satisfy because they
// cannot be read, and under strict admission wishes that HAMi would ignore.
func (d *Devices) checkPolicy(pod map[string]string) error {
	if value, ok := pod[GPUIndexKey]; ok {
		if _, fault := parseIndexes(value); fault != "" {
			return fmt.Errorf("pod annotation %s: want a comma-separated list of GPU indexes such as \"0,2\", found %.64q", GPUIndexKey, fault)
		}
	}
	for _, key := range []string{
		GPUIndexKey, annotations.UseTypeKey, annotations.NoUseTypeKey, annotations.UseUUIDKey, annotations.NoUseUUIDKey,
	} {
		if n := strings.Count(pod[key], ",") + 1; n > maxListItems {
			return fmt.Errorf("pod annotation %s: %d items, want at most %d", key, n, maxListItems)
		}
	}
	if value, ok := pod[annotations.ScoringWeightsKey]; ok {
		if _, err := annotations.ParseWeights(value); err != nil {
			return fmt.Errorf("pod annotation %w", err)
		}
	}
	if !d.config.StrictAdmission {
		return nil
	}
	if ignored := ignoredWishes(pod); len(ignored) > 0 {
		return ignored[0]
	}
	return nil
}

// takeOff deletes what a user must not set and says so.
func takeOff(pod *corev1.Pod, forged []string) (notes []string) {
	for _, key := range forged {
		delete(pod.Annotations, key)
		notes = append(notes, fmt.Sprintf("took annotation %.128q off the pod: only the scheduler and the device plugin write it", key))
	}
	if _, ok := pod.Labels[annotations.VGPUNodeKey]; ok {
		delete(pod.Labels, annotations.VGPUNodeKey)
		notes = append(notes, fmt.Sprintf("took label %q off the pod: only the scheduler writes it", annotations.VGPUNodeKey))
	}
	return notes
}

// plan is what admission will do to one container.
type plan struct {
	asks        bool
	request     Request
	addCount    int32                                     // 0 adds none
	limits      map[corev1.ResourceName]resource.Quantity // to be copied from the requests
	priority    int32
	hasPriority bool
	note        string
}

// plan checks a container and changes nothing.
func (d *Devices) plan(ctr *corev1.Container) (plan, error) {
	a, err := d.readAsk(ctr)
	if err != nil {
		return plan{}, err
	}
	var p plan
	if p.priority, p.hasPriority, err = d.read(ctr, d.config.ResourcePriorityName, parsePriority); err != nil {
		return plan{}, err
	}
	if p.asks = a.any() && (!a.hasCount || a.count > 0); !p.asks {
		return plan{}, nil
	}
	p.request = d.request(a)
	if p.note, err = d.checkEnv(ctr, p.request); err != nil {
		return plan{}, err
	}
	if !a.hasCount {
		p.addCount = p.request.Count
	}
	for _, name := range d.resourceNames() {
		name := corev1.ResourceName(name)
		if _, limited := ctr.Resources.Limits[name]; limited {
			continue
		}
		if q, ok := ctr.Resources.Requests[name]; ok {
			if p.limits == nil {
				p.limits = map[corev1.ResourceName]resource.Quantity{}
			}
			p.limits[name] = q.DeepCopy()
		}
	}
	return p, nil
}

// apply carries out a plan.
func (d *Devices) apply(pod *corev1.Pod, ctr *corev1.Container, p *plan) {
	if !p.asks {
		return
	}
	if ctr.Resources.Limits == nil && (p.addCount > 0 || len(p.limits) > 0) {
		ctr.Resources.Limits = corev1.ResourceList{}
	}
	maps.Copy(ctr.Resources.Limits, p.limits)
	if p.addCount > 0 {
		ctr.Resources.Limits[corev1.ResourceName(d.config.ResourceCountName)] = *resource.NewQuantity(int64(p.addCount), resource.DecimalSI)
	}
	if p.hasPriority {
		setPriority(ctr, p.priority)
	}
	d.extendAudit(ctr, p.request)
	if class := d.config.RuntimeClassName; class != "" && (pod.Spec.RuntimeClassName == nil || *pod.Spec.RuntimeClassName == "") {
		pod.Spec.RuntimeClassName = &class
	}
}
