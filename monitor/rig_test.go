package monitor

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/cumask"
	"github.com/Project-HAMi/hami-amd/dmem/dmemtest"
	"github.com/Project-HAMi/hami-amd/internal/fixture/fixturetest"
	"github.com/Project-HAMi/hami-amd/partition"
)

const (
	nodeName = "gpu-node"
	mib      = 1 << 20
	gib      = 1 << 30
)

// rig is a node with a collector on it: a machine's sysfs, a dmem controller
// that behaves like the kernel's, a directory of hook regions and a cluster
// that answers what the test put in. Fields may be changed between collections.
type rig struct {
	testing.TB
	*Collector
	cluster *fakeCluster
	sysfs   string
	hook    string
	kernel  *dmemtest.Kernel
	devices []partition.Registered

	mu   sync.Mutex
	last []error // the problems of the last collection
}

// fakeCluster answers what it is told to.
type fakeCluster struct {
	mu       sync.Mutex
	pods     []*corev1.Pod
	node     *corev1.Node
	podsErr  error
	nodeErr  error
	asked    int
	onAnswer func()
}

func (f *fakeCluster) Pods() ([]*corev1.Pod, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	if f.onAnswer != nil {
		f.onAnswer()
	}
	return f.pods, f.podsErr
}

func (f *fakeCluster) Node() (*corev1.Node, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.node, f.nodeErr
}

// newRig is a machine whose devices are registered in a mode, with a dmem
// region for each GPU.
func newRig(tb testing.TB, machine string, mode partition.OperatingMode) *rig {
	tb.Helper()
	r := &rig{TB: tb, sysfs: fixturetest.Machine(tb, machine), hook: tb.TempDir()}
	inv, err := partition.Discover(r.sysfs)
	r.must(err)
	r.devices, err = inv.Registered(partition.RegisterOptions{Mode: mode, NodeName: nodeName})
	r.must(err)
	list := make([]annotations.Device, len(r.devices))
	for i, d := range r.devices {
		list[i] = d.Device
	}
	value, err := annotations.EncodeDevices(list)
	r.must(err)
	r.kernel, err = dmemtest.New(tb.TempDir(), dmemtest.Options{})
	r.must(err)
	tb.Cleanup(func() { r.kernel.Close() })
	for _, g := range inv.GPUs {
		r.must(r.kernel.AddRegion(regionOf(string(g.BDF)), 192*gib))
	}
	r.cluster = &fakeCluster{node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: nodeName, Annotations: map[string]string{annotations.NodeRegisterKey: value},
	}}}
	r.Collector, err = New(Options{
		NodeName: nodeName, Cluster: r.cluster, SysfsRoot: r.sysfs, CgroupRoot: r.kernel.Dir(), HookPath: r.hook,
		Problems: func(list []error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.last = list
		},
	})
	r.must(err)
	return r
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func regionOf(bdf string) string { return "drm/" + bdf + "/vram" }

// pod is a running pod with a container for each list of grants, called c0, c1
// and so on. Its CUs are in want of masks.
func (r *rig) pod(name string, grants ...[]annotations.Grant) *corev1.Pod {
	r.Helper()
	value, err := annotations.EncodePod(grants)
	r.must(err)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: types.UID("uid-" + name),
			Annotations: map[string]string{annotations.AllocatedKey: value},
		},
		Spec:   corev1.PodSpec{NodeName: nodeName},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, QOSClass: corev1.PodQOSBurstable},
	}
	for i, list := range grants {
		c := corev1.Container{Name: fmt.Sprintf("c%d", i)}
		if n := len(list); n > 0 {
			c.Resources.Limits = corev1.ResourceList{partition.ResourceGPU: *resource.NewQuantity(int64(n), resource.DecimalSI)}
		}
		pod.Spec.Containers = append(pod.Spec.Containers, c)
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, ContainerID: "containerd://" + containerID(name, i),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		})
	}
	r.cluster.pods = append(r.cluster.pods, pod)
	return pod
}

// containerID makes an id of 64 hex digits of a pod's name and a number.
func containerID(pod string, i int) string {
	id := fmt.Sprintf("%x%02x", pod, i)
	return id + strings.Repeat("0", 64-len(id))
}

// grant is so much of the i-th registered device.
func (r *rig) grant(i int, mib, cus int32) annotations.Grant {
	d := r.devices[i]
	return annotations.Grant{UUID: d.ID, Type: d.Type, MemoryMiB: mib, CUs: cus}
}

// whole is all of the i-th registered device.
func (r *rig) whole(i int) annotations.Grant {
	return r.grant(i, r.devices[i].Devmem, r.devices[i].Devcore)
}

// region is the dmem region of the i-th registered device.
func (r *rig) region(i int) string { return regionOf(string(r.devices[i].GPU.BDF)) }

func podCgroupOf(pod *corev1.Pod) string {
	return "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + strings.ReplaceAll(string(pod.UID), "-", "_") + ".slice"
}

func scopeOf(pod *corev1.Pod, i int) string {
	return podCgroupOf(pod) + "/cri-containerd-" + containerID(pod.Name, i) + ".scope"
}

// start makes the cgroups of a pod's containers, with the controller enabled.
func (r *rig) start(pod *corev1.Pod) {
	r.Helper()
	for i := range pod.Spec.Containers {
		r.must(r.kernel.Mkdir(scopeOf(pod, i)))
	}
	r.must(r.kernel.Delegate(podCgroupOf(pod)))
}

// limit sets dmem.max of a cgroup.
func (r *rig) limit(cgroup, region string, bytes uint64) {
	r.Helper()
	f, err := r.kernel.OpenWrite(cgroup + "/dmem.max")
	r.must(err)
	_, err = fmt.Fprintf(f, "%s %d", region, bytes)
	r.must(errors.Join(err, f.Close()))
}

// regionFile is what a hook's region holds.
type regionFile struct {
	magic  uint32 // 0 is the right one
	limits []uint64
	// slots are what each process uses of each device; nil is a free slot.
	slots [][]uint64
	count *int32 // nil is the number of slots in use
}

// bytes is the region as far as it is not zero, and its size.
func (f regionFile) bytes() []byte {
	b := make([]byte, regionSize)
	magic := uint32(regionMagic)
	if f.magic != 0 {
		magic = f.magic
	}
	binary.LittleEndian.PutUint32(b, magic)
	for i, n := range f.limits {
		binary.LittleEndian.PutUint64(b[regionLimits+8*i:], n)
	}
	var count int32
	for i, used := range f.slots {
		if used == nil {
			continue
		}
		count++
		slot := b[regionSlots+slotSize*i:]
		binary.LittleEndian.PutUint32(slot, uint32(100+i))
		for d, n := range used {
			binary.LittleEndian.PutUint64(slot[slotUsed+usedSize*d+usedTotal:], n)
		}
	}
	if f.count != nil {
		count = *f.count
	}
	binary.LittleEndian.PutUint32(b[regionCount:], uint32(count))
	return b
}

// hookFile is where the hook's region of a container is.
func (r *rig) hookFile(pod *corev1.Pod, container string) string {
	r.Helper()
	path, err := regionPath(r.hook, string(pod.UID), container)
	r.must(err)
	r.must(os.MkdirAll(filepath.Dir(path), 0o755))
	return path
}

// loadHook makes the hook's region of a container. Zeros are holes of the file.
func (r *rig) loadHook(pod *corev1.Pod, container string, content regionFile) {
	r.Helper()
	f, err := os.Create(r.hookFile(pod, container))
	r.must(err)
	defer f.Close()
	b := content.bytes()
	end := regionSlots + slotSize*len(content.slots)
	_, err = f.WriteAt(b[:end], 0)
	r.must(err)
	_, err = f.WriteAt(b[regionCount:], regionCount)
	r.must(err)
}

// text collects once and returns the named metrics as they are exposed, without
// HELP, TYPE and the zone. No names are all.
func (r *rig) text(names ...string) string {
	r.Helper()
	registry := prometheus.NewPedanticRegistry()
	r.must(registry.Register(r.Collector))
	w := httptest.NewRecorder()
	query := url.Values{"name[]": names}
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/?"+query.Encode(), nil))
	if w.Code != http.StatusOK {
		r.Fatalf("status %d: %s", w.Code, w.Body)
	}
	var b strings.Builder
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		if !strings.Contains(line, `zone="vGPU"`) {
			r.Errorf("%s is not in the zone", line)
		}
		b.WriteString(strings.Replace(line, `,zone="vGPU"`, "", 1))
	}
	return b.String()
}

// problems are those of the last collection, one a line.
func (r *rig) problemText() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b strings.Builder
	for _, err := range r.last {
		fmt.Fprintln(&b, err)
	}
	return b.String()
}

func countLines(s string) int { return strings.Count(s, "\n") }

// short is text with the ids of devices as D0, D1 and so on, in the order of
// registration, and those of GPUs that only partitions stand for as G0, G1.
func (r *rig) short(names ...string) string {
	r.Helper()
	text := r.text(names...)
	for i, d := range r.devices {
		text = strings.ReplaceAll(text, `"`+d.ID+`"`, fmt.Sprintf(`"D%d"`, i))
	}
	gpus := 0
	for i, d := range r.devices {
		if i > 0 && r.devices[i-1].GPU == d.GPU {
			continue
		}
		text = strings.ReplaceAll(text, `"`+d.GPU.UUID()+`"`, fmt.Sprintf(`"G%d"`, gpus))
		gpus++
	}
	return text
}

// masks writes what the plugin wrote on a pod: the CUs of each container on each
// device, and their union.
func (r *rig) masks(pod *corev1.Pod, containers map[string]map[string]cumask.Set) {
	r.Helper()
	byContainer := make(map[string]annotations.ContainerCUs)
	union := make(map[string]cumask.Set)
	for name, cus := range containers {
		byContainer[name] = annotations.ContainerCUs{IDs: []string{name + "#0"}, CUs: cus}
		for id, set := range cus {
			union[id] = union[id].Union(set)
		}
	}
	var err error
	pod.Annotations[annotations.CUContainersKey], err = annotations.EncodeContainerCUs(byContainer)
	r.must(err)
	pod.Annotations[annotations.CUAllocatedKey], err = annotations.EncodeCUs(union)
	r.must(err)
}

// wantSeries compares the named metrics with their exposition, in the short
// form and in any order.
func (r *rig) wantSeries(want string, names ...string) {
	r.Helper()
	if diff := cmp.Diff(sorted(want), sorted(r.short(names...))); diff != "" {
		r.Errorf("series (-want +got):\n%s", diff)
	}
}

// wantProblems collects once and looks for a problem with each text, in order,
// and for no others.
func (r *rig) wantProblems(want ...string) {
	r.Helper()
	success := fmt.Sprintf("hami_vgpumonitor_collect_success{node=%q} %d\n", nodeName, map[bool]int{true: 1, false: 0}[len(want) == 0])
	if got := r.text("hami_vgpumonitor_collect_success"); got != success {
		r.Errorf("got %s, want %s", got, success)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.last) != len(want) {
		r.Errorf("%d problems, want %d: %v", len(r.last), len(want), r.last)
		return
	}
	for i, err := range r.last {
		if !strings.Contains(err.Error(), want[i]) {
			r.Errorf("problem %d: %q, want %q in it", i, err, want[i])
		}
	}
}

func sorted(text string) []string { return slices.Sorted(strings.Lines(text)) }
