package plugin

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/Project-HAMi/hami-amd/internal/fixture/fixturetest"
	"github.com/Project-HAMi/hami-amd/partition"
)

// unhealthy are the IDs of kubelet's unhealthy devices.
func (k *fakeKubelet) unhealthy() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.unhealthyLocked()
}

func (k *fakeKubelet) unhealthyLocked() []string {
	var out []string
	for _, c := range k.clients {
		if len(c.lists) == 0 {
			continue
		}
		for _, d := range c.lists[len(c.lists)-1] {
			if d.Health != "Healthy" {
				out = append(out, d.ID)
			}
		}
	}
	slices.Sort(out)
	return out
}

// A render node that cannot be opened makes its partition unhealthy at once,
// and healthy again when it can. The allocator hears of it before kubelet does.
func TestHealthIsPushed(t *testing.T) {
	k := newFakeKubelet(t)
	k.start()
	cfg := machineConfig(t, "mi355x-qpx-8")
	cfg.KubeletDir, cfg.OperatingMode, cfg.Pulse = k.root(), "partition", 5*time.Millisecond
	alloc := &stubAllocator{}
	r := startPlugin(t, cfg, alloc, nil)
	k.devices(partition.ResourceGPU, 32)
	if sick := k.unhealthy(); len(sick) != 0 {
		t.Fatalf("unhealthy from the start: %q", sick)
	}
	d := findDevice(t, cfg.SysfsRoot, "0000:65:00.0-p2")
	file := filepath.Join(cfg.DevRoot, fmt.Sprintf("dri/renderD%d", d.Nodes[0].RenderMinor))
	if err := os.Rename(file, file+".gone"); err != nil {
		t.Fatal(err)
	}
	k.until("the partition is unhealthy", func() bool { return slices.Equal(k.unhealthyLocked(), []string{"0000:65:00.0-p2"}) })
	changes := alloc.changed()
	if len(changes) == 0 {
		t.Fatal("the allocator does not know yet")
	}
	last := changes[len(changes)-1]
	now, _ := last.next.ByKubeletID("0000:65:00.0-p2")
	if was, _ := last.prev.ByKubeletID("0000:65:00.0-p2"); !was.Health || now.Health || !strings.Contains(now.Unhealthy, "no such file") {
		t.Errorf("the allocator was told %t -> %t %q", was.Health, now.Health, now.Unhealthy)
	}
	if err := os.Rename(file+".gone", file); err != nil {
		t.Fatal(err)
	}
	k.until("all are healthy", func() bool { return len(k.unhealthyLocked()) == 0 })
	if countOf(r.logs, "A device changed") != 2 {
		t.Error(r.logs.String())
	}
}

func findDevice(t *testing.T, sysfs, id string) partition.Registered {
	t.Helper()
	inv, err := partition.Discover(sysfs)
	if err != nil {
		t.Fatal(err)
	}
	list, err := inv.Registered(partition.RegisterOptions{Mode: partition.ModePartition})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range list {
		if slices.Contains(r.KubeletIDs, id) {
			return r
		}
	}
	t.Fatalf("no device %s", id)
	panic("unreachable")
}

// Without a pulse nobody opens a device node, yet what is there is followed.
func TestNoPulseChecksNothing(t *testing.T) {
	cfg := machineConfig(t, "rx7900xtx")
	cfg.DevRoot = t.TempDir() // without a single device node
	d := newDevices(cfg, partition.ModeCU, quietLog(t))
	if err := d.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := d.Snapshot().Devices[0]; !r.Health {
		t.Errorf("unhealthy: %s", r.Unhealthy)
	}
	replaceTree(t, cfg.SysfsRoot, fixturetest.Machine(t, "empty"))
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), rescan+time.Second)
		defer cancel()
		d.pulse(ctx, func(prev, next *snapshot) {})
	})
	if n := len(d.Snapshot().Devices); n != 0 {
		t.Errorf("%d devices after the GPU has left", n)
	}
}

// GPUs the node keeps for itself are not checked: that would open them, and
// wake one that sleeps.
func TestExcludedGPUsAreLeftAlone(t *testing.T) {
	cfg := machineConfig(t, "mi300x-spx-8")
	cfg.Pulse, cfg.ExcludeGPUs = time.Second, []string{"card9", "0000:e5:00.0"}
	inv, err := partition.Discover(cfg.SysfsRoot)
	if err != nil {
		t.Fatal(err)
	}
	watch, err := unix.InotifyInit1(unix.IN_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(watch)
	watched := make(map[int]partition.BDF)
	for _, g := range inv.GPUs {
		id, err := unix.InotifyAddWatch(watch, filepath.Join(cfg.DevRoot, fmt.Sprintf("dri/renderD%d", g.Nodes[0].RenderMinor)), unix.IN_OPEN)
		if err != nil {
			t.Fatal(err)
		}
		watched[id] = g.BDF
	}
	d := newDevices(cfg, partition.ModeCU, quietLog(t))
	if err := d.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4096)
	n, err := unix.Read(watch, buf)
	if err != nil {
		t.Fatal(err)
	}
	opened := make(map[partition.BDF]bool)
	for ; n >= unix.SizeofInotifyEvent; n -= unix.SizeofInotifyEvent { // files have events without a name
		opened[watched[int(binary.NativeEndian.Uint32(buf[n-unix.SizeofInotifyEvent:]))]] = true
	}
	if len(opened) != 6 || opened["0000:27:00.0"] || opened["0000:e5:00.0"] {
		t.Errorf("opened: %v", opened)
	}
	if n := len(d.Snapshot().Inventory.GPUs); n != 8 {
		t.Errorf("%d GPUs in the inventory, want all", n)
	}
}

// A GPU changes its partition mode while the plugin runs: kubelet gets the new
// devices only, under one resource or another, and the allocator both views.
func TestC35PartitionModeChangesWhileRunning(t *testing.T) {
	k := newFakeKubelet(t)
	k.start()
	cfg := machineConfig(t, "mi300x-spx-8")
	cfg.KubeletDir, cfg.OperatingMode, cfg.Pulse, cfg.Naming = k.root(), "partition", 5*time.Millisecond, "mixed"
	alloc := &stubAllocator{}
	startPlugin(t, cfg, alloc, nil)
	k.devices(partition.ResourceGPU, 8)

	// The driver's view of the same machine in CPX takes the place of the old.
	cpx := fixturetest.Machine(t, "mi300x-cpx-8")
	replaceDev(t, cfg.DevRoot, devFolder(t, cpx))
	replaceTree(t, cfg.SysfsRoot, cpx)

	k.devices("amd.com/cpx_nps1", 64)
	k.devices(partition.ResourceGPU, 0)
	k.until("all are healthy", func() bool { return len(k.unhealthyLocked()) == 0 })
	var kinds []string
	for _, c := range alloc.changed() {
		for _, d := range partition.Diff(c.prev.Devices, c.next.Devices) {
			kinds = append(kinds, string(d.Kind))
		}
	}
	if !slices.Contains(kinds, string(partition.ModeChanged)) && !slices.Contains(kinds, string(partition.Appeared)) {
		t.Errorf("the allocator was told of %q", kinds)
	}
}

// replaceTree puts a sysfs in the place of another, as one step.
func replaceTree(t *testing.T, old, with string) {
	t.Helper()
	if err := os.Rename(old, old+".old"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(with, old); err != nil {
		t.Fatal(err)
	}
}

func replaceDev(t *testing.T, dev, with string) {
	t.Helper()
	names, err := os.ReadDir(filepath.Join(with, "dri"))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		fixturetest.Write(t, dev, "dri/"+n.Name(), "")
	}
}

func TestGPUsVanishAndComeBack(t *testing.T) {
	k := newFakeKubelet(t)
	k.start()
	cfg := machineConfig(t, "rx7900xtx")
	cfg.KubeletDir, cfg.Pulse = k.root(), 5*time.Millisecond
	startPlugin(t, cfg, &stubAllocator{}, nil)
	k.devices(partition.ResourceGPU, 10)
	empty := fixturetest.Machine(t, "empty")
	replaceTree(t, cfg.SysfsRoot, empty)
	k.devices(partition.ResourceGPU, 0)
	if err := os.Rename(cfg.SysfsRoot, empty); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(cfg.SysfsRoot+".old", cfg.SysfsRoot); err != nil {
		t.Fatal(err)
	}
	k.devices(partition.ResourceGPU, 10)
}

// A sysfs that cannot be read for a while changes nothing, and is spoken of
// once.
func TestScanErrorsKeepTheDevices(t *testing.T) {
	cfg := machineConfig(t, "rx7900xtx")
	cfg.Pulse = time.Second
	deps, logs := testLogger(t)
	d := newDevices(cfg, partition.ModeCU, deps.Log)
	if err := d.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := d.Snapshot()
	if err := os.Rename(cfg.SysfsRoot, cfg.SysfsRoot+".gone"); err != nil {
		t.Fatal(err)
	}
	never := func(prev, next *snapshot) { t.Error("a change was announced") }
	for range 3 {
		d.again(t.Context(), never)
	}
	if d.Snapshot() != before {
		t.Error("the devices changed")
	}
	if n := countOf(logs, "Looking at the GPUs failed"); n != 1 {
		t.Errorf("%d lines:\n%s", n, logs)
	}
	if err := os.Rename(cfg.SysfsRoot+".gone", cfg.SysfsRoot); err != nil {
		t.Fatal(err)
	}
	d.again(t.Context(), never)
	if d.Snapshot() != before {
		t.Error("a look that found nothing new replaced the devices")
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	d.again(cancelled, never)
}

func TestStartFailsWithoutSysfs(t *testing.T) {
	d := newDevices(Config{SysfsRoot: filepath.Join(t.TempDir(), "none")}, partition.ModeCU, quietLog(t))
	if err := d.start(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "discovering GPUs: ") {
		t.Errorf("error %v", err)
	}
}

func TestExcludeByIDAndIndex(t *testing.T) {
	all := func(machine string, mode partition.OperatingMode) []partition.Registered {
		return machineSnapshot(t, machine, partition.RegisterOptions{Mode: mode, NodeName: "node-1"}).Devices
	}
	soft, qpx := all("mi300x-spx-8", partition.ModeCU), all("mi355x-qpx-8", partition.ModePartition)
	tests := map[string]struct {
		machine string
		mode    partition.OperatingMode
		ids     []string
		indexes []uint
		flags   []string
		gone    []string // register IDs
		notes   []string
	}{
		"a GPU by its ID":           {machine: "mi300x-spx-8", ids: []string{strings.ToUpper(soft[2].ID)}, gone: []string{soft[2].ID}},
		"a GPU by its index":        {machine: "mi300x-spx-8", indexes: []uint{7}, gone: []string{soft[7].ID}},
		"all partitions of a GPU":   {machine: "mi355x-qpx-8", mode: partition.ModePartition, indexes: []uint{0}, gone: []string{qpx[0].ID, qpx[1].ID, qpx[2].ID, qpx[3].ID}},
		"one partition":             {machine: "mi355x-qpx-8", mode: partition.ModePartition, ids: []string{qpx[6].ID}, gone: []string{qpx[6].ID}},
		"besides the excluded ones": {machine: "mi300x-spx-8", ids: []string{soft[2].ID}, flags: []string{"0000:05:00.0"}, gone: []string{soft[0].ID, soft[2].ID}},
		"one that is not there":     {machine: "mi300x-spx-8", ids: []string{"x"}, indexes: []uint{8}, notes: []string{`filter device "x": no such device on this node`, "filter device index 8: no such GPU on this node"}},
		"a partition of the other mode": {machine: "mi300x-spx-8", ids: []string{soft[0].ID + "-p0"},
			notes: []string{fmt.Sprintf("filter device %q: no such device on this node", soft[0].ID+"-p0")}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			cfg := machineConfig(t, test.machine)
			cfg.ExcludeIDs, cfg.ExcludeIndexes, cfg.ExcludeGPUs = test.ids, test.indexes, test.flags
			mode := test.mode
			if mode == "" {
				mode = partition.ModeCU
			}
			d := newDevices(cfg, mode, quietLog(t))
			if err := d.start(t.Context()); err != nil {
				t.Fatal(err)
			}
			s := d.Snapshot()
			var gone []string
			for _, r := range all(test.machine, mode) {
				if _, ok := s.Device(r.ID); !ok {
					gone = append(gone, r.ID)
				}
			}
			if diff := cmp.Diff(test.gone, gone); diff != "" {
				t.Errorf("excluded (-want +got):\n%s", diff)
			}
			for _, n := range test.notes {
				if !slices.Contains(s.Notes, n) {
					t.Errorf("no note %q in %q", n, s.Notes)
				}
			}
		})
	}
}

func TestStandaloneHasOneShare(t *testing.T) {
	cfg := machineConfig(t, "rx7900xtx")
	cfg.Standalone, cfg.SplitCount = true, 4
	d := newDevices(cfg, partition.ModeCU, quietLog(t))
	if err := d.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"0000:03:00.0#0"}, d.Snapshot().Devices[0].KubeletIDs); diff != "" {
		t.Error(diff)
	}
}

// fakeExporter is the metrics exporter, which answers with a health per BDF.
type fakeExporter struct {
	socket string
	health map[string]string
	rpc    *grpc.Server
}

// rawCodec passes messages through as they are on the wire.
type rawCodec struct{}

func (rawCodec) Marshal(v any) ([]byte, error) {
	if m, ok := v.(proto.Message); ok {
		return proto.Marshal(m)
	}
	return v.([]byte), nil
}
func (rawCodec) Unmarshal(data []byte, v any) error { return proto.Unmarshal(data, v.(proto.Message)) }
func (rawCodec) Name() string                       { return "proto" }

func newFakeExporter(t *testing.T) *fakeExporter {
	dir, err := os.MkdirTemp("", "ex")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return &fakeExporter{socket: filepath.Join(dir, "e.socket")}
}

func (e *fakeExporter) start(t *testing.T, health map[string]string) {
	e.health = maps.Clone(health)
	listener, err := listen(e.socket)
	if err != nil {
		t.Fatal(err)
	}
	var reply []byte
	for _, bdf := range slices.Sorted(maps.Keys(e.health)) {
		var state []byte
		state = protowire.AppendTag(state, 3, protowire.BytesType)
		state = protowire.AppendString(state, e.health[bdf])
		state = protowire.AppendTag(state, 5, protowire.BytesType)
		state = protowire.AppendString(state, bdf)
		reply = protowire.AppendTag(reply, 1, protowire.BytesType)
		reply = protowire.AppendBytes(reply, state)
	}
	e.rpc = grpc.NewServer(grpc.ForceServerCodec(rawCodec{}), grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
		if err := s.RecvMsg(&emptypb.Empty{}); err != nil {
			return err
		}
		return s.SendMsg(reply)
	}))
	rpc := e.rpc
	go rpc.Serve(listener)
	t.Cleanup(rpc.Stop)
}

// The exporter's verdict counts while it answers. Its absence says nothing of
// the GPUs, and is logged once.
func TestExporterVerdicts(t *testing.T) {
	e := newFakeExporter(t)
	cfg := machineConfig(t, "mi300x-spx-8")
	cfg.Pulse, cfg.ExporterSocket = time.Second, e.socket
	deps, logs := testLogger(t)
	d := newDevices(cfg, partition.ModeCU, deps.Log)
	if err := d.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	sick := func() []string {
		var out []string
		for _, r := range d.Snapshot().Devices {
			if !r.Health {
				out = append(out, string(r.GPU.BDF)+": "+r.Unhealthy)
			}
		}
		return out
	}
	look := func() {
		for range 3 {
			d.again(t.Context(), func(prev, next *snapshot) {})
		}
	}
	look()
	if got := sick(); got != nil {
		t.Errorf("without an exporter: %q", got)
	}
	e.start(t, map[string]string{"0000:05:00.0": "unhealthy", "0000:26:00.0": "healthy"})
	look()
	got := sick()
	if len(got) != 1 || !strings.HasPrefix(got[0], "0000:05:00.0: ") {
		t.Errorf("the exporter says 0000:05:00.0: %q", got)
	}
	// What the node itself sees is the better reason.
	if err := os.Remove(filepath.Join(cfg.DevRoot, "kfd")); err != nil {
		t.Fatal(err)
	}
	look()
	if err := newDevices(cfg, partition.ModeCU, deps.Log).start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := countOf(logs, "A device is unhealthy"); n != 8 {
		t.Errorf("%d devices are said to be unhealthy at start", n)
	}
	if got := sick(); len(got) != 8 || !strings.HasSuffix(got[0], "kfd does not exist") {
		t.Errorf("without /dev/kfd: %q", got)
	}
	fixturetest.Write(t, cfg.DevRoot, "kfd", "")
	e.rpc.Stop()
	look()
	if got := sick(); got != nil {
		t.Errorf("the exporter is gone: %q", got)
	}
	if n := countOf(logs, "no verdict"); n != 2 {
		t.Errorf("%d outages in the log, want 2:\n%s", n, logs)
	}
}

func TestNotesAreLoggedOnce(t *testing.T) {
	cfg := machineConfig(t, "rx7900xtx")
	cfg.ExcludeGPUs, cfg.Pulse = []string{"card17"}, time.Second
	deps, logs := testLogger(t)
	d := newDevices(cfg, partition.ModeCU, deps.Log)
	if err := d.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		d.again(t.Context(), func(prev, next *snapshot) {})
	}
	if n := countOf(logs, `exclude "card17"`); n != 1 {
		t.Errorf("%d lines:\n%s", n, logs)
	}
	if n := countOf(logs, "KFD node"); n != 1 {
		t.Errorf("the topology is there %d times:\n%s", n, logs)
	}
}

// A node without GPUs says so, and what would have to be there.
func TestNoGPU(t *testing.T) {
	deps, logs := testLogger(t)
	if err := newDevices(machineConfig(t, "empty"), partition.ModeCU, deps.Log).start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if countOf(logs, "No AMD GPU is on this node") != 1 || countOf(logs, "null") != 0 {
		t.Errorf("the log of a node without GPUs:\n%s", logs)
	}
}
