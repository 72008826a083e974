package plugin

import (
	"context"
	"debug/elf"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/cumask"
	"github.com/Project-HAMi/hami-amd/hook/elftest"
	"github.com/Project-HAMi/hami-amd/internal/fixture/fixturetest"
	"github.com/Project-HAMi/hami-amd/partition"
)

const testNode = "gpu-node"

// fakeSource is the kubelet side's snapshot.
type fakeSource struct {
	mu     sync.Mutex
	snap   *snapshot
	cdiErr error
	onCDI  func()
}

func (f *fakeSource) Snapshot() *snapshot {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.snap
}

func (f *fakeSource) PrepareCDI(*snapshot) error {
	if f.onCDI != nil {
		f.onCDI()
	}
	return f.cdiErr
}

func (f *fakeSource) set(s *snapshot) (prev *snapshot) {
	f.mu.Lock()
	defer f.mu.Unlock()
	prev, f.snap = f.snap, s
	return prev
}

// snapshotOf discovers a machine of testdata.
func snapshotOf(tb testing.TB, machine string, opts partition.RegisterOptions) *snapshot {
	tb.Helper()
	inv, err := partition.Discover(fixturetest.Machine(tb, machine))
	if err != nil {
		tb.Fatal(err)
	}
	return snapshotFrom(tb, inv, opts)
}

func snapshotFrom(tb testing.TB, inv *partition.Inventory, opts partition.RegisterOptions) *snapshot {
	tb.Helper()
	opts.NodeName = testNode
	reg, err := inv.Register(opts)
	if err != nil {
		tb.Fatal(err)
	}
	return newSnapshot(reg.Devices, inv, opts.Mode, reg.Notes)
}

// rig is an allocator with everything around it.
type rig struct {
	testing.TB
	server *apiServer
	src    *fakeSource
	cfg    Config
	*hamiAllocator
	timing  *timing         // of plugins started from now on, if set
	refused map[string]bool // pods that a plugin refused before kubelet forgot it

	mu     sync.Mutex
	clock  time.Time
	locked int
}

func newRig(tb testing.TB, snap *snapshot, change ...func(*Config)) *rig {
	tb.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: testNode, UID: "node-uid", Annotations: map[string]string{"some": "thing"}}}
	r := &rig{
		TB: tb, server: newAPIServer(tb, node), src: &fakeSource{snap: snap},
		cfg:   Config{NodeName: testNode, HookPath: tb.TempDir(), DisableDmem: true},
		clock: time.Date(2026, 8, 21, 12, 0, 0, 0, time.UTC),
	}
	for _, f := range change {
		f(&r.cfg)
	}
	library := filepath.Join(r.cfg.HookPath, "vgpu", "libamvgpu.so")
	if err := os.MkdirAll(filepath.Dir(library), 0o755); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(library, elftest.Hook("GLIBC_2.34"), 0o644); err != nil {
		tb.Fatal(err)
	}
	r.start("plugin")
	return r
}

// start makes a plugin, or a new one in place of the old, as after a restart.
func (r *rig) start(agent string) {
	r.Helper()
	timing := defaultTiming()
	timing.doubt = 50 * time.Millisecond
	if r.timing != nil {
		timing = *r.timing
	}
	var err error
	r.hamiAllocator, err = newHamiAllocator(r.cfg, Deps{Client: r.server.client(agent), Log: testLog(r.TB), Now: r.time}, r.src, timing)
	if err != nil {
		r.Fatal(err)
	}
	r.gate.host = elf.EM_X86_64 // as the stand-in for the hook
}

func testLog(tb testing.TB) klog.Logger {
	if !testing.Verbose() {
		return klog.Logger{}
	}
	return klog.Background()
}

func (r *rig) time() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.clock
}

func (r *rig) advance(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clock = r.clock.Add(d)
}

// background runs the allocator's tasks until the test ends or end is called.
func (r *rig) background() (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	a := r.hamiAllocator
	go func() { done <- a.Run(ctx) }()
	end = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			r.Errorf("Run = %v", err)
		}
	})
	r.Cleanup(end)
	return end
}

// device is the i-th device of the node.
func (r *rig) device(i int) *partition.Registered { return &r.src.Snapshot().Devices[i] }

// share is kubelet's ID of a share of the i-th device.
func (r *rig) share(device, slot int) string { return r.device(device).KubeletIDs[slot] }

func (r *rig) grant(device int, mib, cus int32) annotations.Grant {
	d := r.device(device)
	return annotations.Grant{UUID: d.ID, Type: d.Type, MemoryMiB: mib, CUs: cus}
}

func (r *rig) whole(device int) annotations.Grant {
	d := r.device(device)
	return annotations.Grant{UUID: d.ID, Type: d.Type, MemoryMiB: d.Devmem, CUs: d.Devcore}
}

// asks makes a container that asks for n GPUs, 0 for none.
func asks(name string, n int64) corev1.Container {
	c := corev1.Container{Name: name, Image: "registry.example/" + name}
	if n > 0 {
		q := *resource.NewQuantity(n, resource.DecimalSI)
		c.Resources = corev1.ResourceRequirements{
			Limits:   corev1.ResourceList{partition.ResourceGPU: q},
			Requests: corev1.ResourceList{partition.ResourceGPU: q},
		}
	}
	return c
}

// pod makes a pod that the scheduler has placed: app containers c0, c1 and so
// on, one for each entry of grants.
func (r *rig) pod(name string, grants ...[]annotations.Grant) *corev1.Pod {
	r.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: types.UID("uid-of-" + name),
			Annotations: map[string]string{annotations.BindPhaseKey: string(annotations.BindAllocating), annotations.VGPUNodeKey: testNode},
		},
		Spec:   corev1.PodSpec{NodeName: testNode},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	for i, g := range grants {
		p.Spec.Containers = append(p.Spec.Containers, asks(fmt.Sprintf("c%d", i), int64(len(g))))
	}
	r.setGrants(p, grants...)
	return p
}

func (r *rig) setGrants(p *corev1.Pod, grants ...[]annotations.Grant) {
	r.Helper()
	text, err := annotations.EncodePod(grants)
	if err != nil {
		r.Fatal(err)
	}
	p.Annotations[annotations.AllocatedKey] = text
	p.Annotations[annotations.ToAllocateKey] = text
}

// bind does what the scheduler does last: the pod is on the node and holds its
// lock.
func (r *rig) bind(p *corev1.Pod) *corev1.Pod {
	r.Helper()
	r.server.put(p)
	r.lock(p.Namespace + "/" + p.Name)
	return p
}

func (r *rig) lock(key string) {
	r.locked++
	namespace, name, _ := strings.Cut(key, "/")
	lock := annotations.NodeLock{Time: r.time().Add(time.Duration(r.locked) * time.Second), Namespace: namespace, Name: name}
	r.server.editNode(func(n *corev1.Node) { n.Annotations[annotations.NodeLockKey] = lock.String() })
}

// allocate calls Allocate for the shares of one container.
func (r *rig) allocate(ids ...string) (*pluginapi.ContainerAllocateResponse, error) {
	response, err := r.Allocate(context.Background(), partition.ResourceGPU, [][]string{ids})
	if err != nil {
		return nil, err
	}
	if len(response.ContainerResponses) != 1 {
		r.Fatalf("%d container responses, want 1", len(response.ContainerResponses))
	}
	return response.ContainerResponses[0], nil
}

func (r *rig) mustAllocate(ids ...string) *pluginapi.ContainerAllocateResponse {
	r.Helper()
	response, err := r.allocate(ids...)
	if err != nil {
		r.Fatalf("Allocate(%q) = %v", ids, err)
	}
	return response
}

// run sets the phase that kubelet sets once a pod's containers run.
func (r *rig) run(key string) { r.phase(key, corev1.PodRunning) }

func (r *rig) phase(key string, phase corev1.PodPhase) {
	r.server.edit(key, func(p *corev1.Pod) { p.Status.Phase = phase })
}

func (r *rig) annotation(key, annotation string) string {
	return r.server.pod(key).Annotations[annotation]
}

// lockText is the node lock, "" for none.
func (r *rig) lockText() string {
	return r.server.currentNode().Annotations[annotations.NodeLockKey]
}

// mask is the CUs of one device of a container's answer.
func (r *rig) mask(response *pluginapi.ContainerAllocateResponse, device int) cumask.Set {
	r.Helper()
	masks, err := cumask.ParseHSAMask(response.Envs["HSA_CU_MASK"])
	if err != nil {
		r.Fatal(err)
	}
	for _, m := range masks {
		if m.Device == device {
			return m.CUs
		}
	}
	return cumask.Set{}
}

// cus is hami.io/amd-cu-allocated of a pod for one device.
func (r *rig) cus(key string, device int) cumask.Set {
	r.Helper()
	text, ok := r.server.pod(key).Annotations[annotations.CUAllocatedKey]
	if !ok {
		return cumask.Set{}
	}
	all, err := annotations.DecodeCUs(text)
	if err != nil {
		r.Fatalf("pod %s: %v", key, err)
	}
	return all[r.device(device).ID]
}

// checkDisjoint fails the test if two live pods hold one CU.
func (r *rig) checkDisjoint() {
	r.Helper()
	r.server.mu.Lock()
	pods := maps.Clone(r.server.pods)
	r.server.mu.Unlock()
	held := make(map[string]cumask.Set)
	for _, key := range slices.Sorted(maps.Keys(pods)) {
		p := pods[key]
		text, ok := p.Annotations[annotations.CUAllocatedKey]
		if !ok || finished(p) {
			continue
		}
		all, err := annotations.DecodeCUs(text)
		if err != nil {
			r.Fatalf("pod %s: %v", key, err)
		}
		for id, cus := range all {
			if both := held[id].Intersect(cus); !both.Empty() {
				r.Errorf("pod %s: device %s: CUs %s are held twice", key, id, both)
			}
			held[id] = held[id].Union(cus)
		}
	}
}

// callsOf are the calls of one plugin, as method and path.
func callsOf(calls []apiCall) []string {
	var list []string
	for _, c := range calls {
		list = append(list, c.String())
	}
	return list
}
