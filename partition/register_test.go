package partition

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/Project-HAMi/hami-amd/annotations"
)

// brief is a device in one line: what kind it is, what it holds, and its IDs
// as kubelet sees them.
func brief(d Registered) string {
	kind := "soft"
	if d.Hard {
		kind = "hard " + d.Mode
	}
	health := ""
	if !d.Health {
		health = " unhealthy"
	}
	ids := d.KubeletIDs[0]
	if n := len(d.KubeletIDs); n > 1 {
		ids += ".." + d.KubeletIDs[n-1]
	}
	return fmt.Sprintf("%s x%d: %d MiB, %d CUs, %d XCCs, %s, %s, nodes %d%s",
		kind, d.Count, d.Devmem, d.Devcore, d.CustomInfo.NumXCC, d.CustomInfo.PartitionProfile, ids, len(d.Nodes), health)
}

func briefs(devices []Registered) []string {
	var out []string
	for _, d := range devices {
		out = append(out, brief(d))
	}
	return out
}

// Every row and mode of the MI300X and MI355X tables, and the other parts of
// the product table, in both operating modes.
func TestRegisterEveryProductAndMode(t *testing.T) {
	tests := map[string]struct {
		inv           *Inventory
		cu, partition []string
	}{
		"MI300X SPX": {machine(mi300x, 1, SPX, "nps1"),
			[]string{"soft x10: 196592 MiB, 304 CUs, 8 XCCs, spx_nps1, 0000:05:00.0#0..0000:05:00.0#9, nodes 1"},
			[]string{"hard spx x1: 196592 MiB, 304 CUs, 8 XCCs, spx_nps1, 0000:05:00.0, nodes 1"}},
		"MI300X DPX": {machine(mi300x, 1, DPX, "nps1"),
			[]string{"soft x10: 196592 MiB, 304 CUs, 8 XCCs, dpx_nps1, 0000:05:00.0#0..0000:05:00.0#9, nodes 2 unhealthy"},
			partitions(2, "hard dpx x1: 98296 MiB, 152 CUs, 4 XCCs, dpx_nps1")},
		"MI300X QPX": {machine(mi300x, 1, QPX, "nps4"),
			[]string{"soft x10: 196592 MiB, 304 CUs, 8 XCCs, qpx_nps4, 0000:05:00.0#0..0000:05:00.0#9, nodes 4 unhealthy"},
			partitions(4, "hard qpx x1: 49148 MiB, 76 CUs, 2 XCCs, qpx_nps4")},
		"MI300X CPX": {machine(mi300x, 1, CPX, "nps4"),
			[]string{"soft x10: 196592 MiB, 304 CUs, 8 XCCs, cpx_nps4, 0000:05:00.0#0..0000:05:00.0#9, nodes 8 unhealthy"},
			partitions(8, "hard cpx x1: 24574 MiB, 38 CUs, 1 XCCs, cpx_nps4")},
		"MI355X SPX": {machine(mi355x, 1, SPX, "nps1"),
			[]string{"soft x10: 294912 MiB, 256 CUs, 8 XCCs, spx_nps1, 0000:05:00.0#0..0000:05:00.0#9, nodes 1"},
			[]string{"hard spx x1: 294912 MiB, 256 CUs, 8 XCCs, spx_nps1, 0000:05:00.0, nodes 1"}},
		"MI355X DPX": {machine(mi355x, 1, DPX, "nps2"),
			[]string{"soft x10: 294912 MiB, 256 CUs, 8 XCCs, dpx_nps2, 0000:05:00.0#0..0000:05:00.0#9, nodes 2 unhealthy"},
			partitions(2, "hard dpx x1: 147456 MiB, 128 CUs, 4 XCCs, dpx_nps2")},
		"MI355X QPX": {machine(mi355x, 1, QPX, "nps1"),
			[]string{"soft x10: 294912 MiB, 256 CUs, 8 XCCs, qpx_nps1, 0000:05:00.0#0..0000:05:00.0#9, nodes 4 unhealthy"},
			partitions(4, "hard qpx x1: 73728 MiB, 64 CUs, 2 XCCs, qpx_nps1")},
		"MI355X CPX": {machine(mi355x, 1, CPX, "nps1"),
			[]string{"soft x10: 294912 MiB, 256 CUs, 8 XCCs, cpx_nps1, 0000:05:00.0#0..0000:05:00.0#9, nodes 8 unhealthy"},
			partitions(8, "hard cpx x1: 36864 MiB, 32 CUs, 1 XCCs, cpx_nps1")},
		"MI300A TPX": {machine(mi300a, 1, TPX, "nps1"),
			[]string{"soft x10: 131072 MiB, 228 CUs, 6 XCCs, tpx_nps1, 0000:05:00.0#0..0000:05:00.0#9, nodes 3 unhealthy"},
			partitions(3, "hard tpx x1: 43690 MiB, 76 CUs, 2 XCCs, tpx_nps1")},
		"MI308X CPX": {machine(mi308x, 1, CPX, "nps1"),
			[]string{"soft x10: 196608 MiB, 80 CUs, 4 XCCs, cpx_nps1, 0000:05:00.0#0..0000:05:00.0#9, nodes 4 unhealthy"},
			partitions(4, "hard cpx x1: 49152 MiB, 20 CUs, 1 XCCs, cpx_nps1")},
		"MI300X virtual function, which cannot change its mode": {machine(mi300xVF, 1, SPX, "nps1"),
			[]string{"soft x10: 196288 MiB, 304 CUs, 8 XCCs, spx_nps1, 0000:05:00.0#0..0000:05:00.0#9, nodes 1"},
			[]string{"soft x10: 196288 MiB, 304 CUs, 8 XCCs, spx_nps1, 0000:05:00.0#0..0000:05:00.0#9, nodes 1"}},
		"MI210, which has no modes": {machine(mi210, 1, "", ""),
			[]string{"soft x10: 65520 MiB, 104 CUs, 1 XCCs, , 0000:05:00.0#0..0000:05:00.0#9, nodes 1"},
			[]string{"soft x10: 65520 MiB, 104 CUs, 1 XCCs, , 0000:05:00.0#0..0000:05:00.0#9, nodes 1"}},
		"RX 7900 XTX": {machine(rx7900, 1, "", ""),
			[]string{"soft x10: 24560 MiB, 96 CUs, 1 XCCs, , 0000:05:00.0#0..0000:05:00.0#9, nodes 1"},
			[]string{"soft x10: 24560 MiB, 96 CUs, 1 XCCs, , 0000:05:00.0#0..0000:05:00.0#9, nodes 1"}},
		"RX 9060 XT, a gfx12": {machine(rx9060, 1, "", ""),
			[]string{"soft x2: 16304 MiB, 32 CUs, 1 XCCs, , 0000:05:00.0#0..0000:05:00.0#1, nodes 1"},
			[]string{"soft x2: 16304 MiB, 32 CUs, 1 XCCs, , 0000:05:00.0#0..0000:05:00.0#1, nodes 1"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for mode, want := range map[OperatingMode][]string{"": test.cu, ModeCU: test.cu, ModePartition: test.partition} {
				reg := mustRegister(t, test.inv, RegisterOptions{Mode: mode})
				if diff := cmp.Diff(want, briefs(reg)); diff != "" {
					t.Errorf("mode %q (-want +got):\n%s", mode, diff)
				}
				checkRegistered(t, test.inv, reg)
			}
		})
	}
}

// partitions repeats what equal partitions share, with their kubelet IDs.
func partitions(n int, each string) []string {
	var out []string
	for k := range n {
		out = append(out, fmt.Sprintf("%s, 0000:05:00.0-p%d, nodes 1", each, k))
	}
	return out
}

// checkRegistered holds what is true of every registration.
func checkRegistered(t *testing.T, inv *Inventory, devices []Registered) {
	t.Helper()
	var entries []annotations.Device
	ids, kubelet, indices := map[string]bool{}, map[string]bool{}, map[uint]bool{}
	for _, d := range devices {
		entries = append(entries, d.Device)
		if ids[d.ID] || indices[d.Index] {
			t.Errorf("device %s, index %d: there twice", d.ID, d.Index)
		}
		ids[d.ID], indices[d.Index] = true, true
		if len(d.KubeletIDs) != int(d.Count) {
			t.Errorf("%s: %d kubelet IDs for a count of %d", d.ID, len(d.KubeletIDs), d.Count)
		}
		for _, id := range d.KubeletIDs {
			if kubelet[id] || len(id) > 63 {
				t.Errorf("kubelet ID %q: there twice, or longer than 63 characters", id)
			}
			kubelet[id] = true
		}
		if d.Hard != (d.Mode != "") || d.Hard && d.Count != 1 || d.Health != (d.Unhealthy == "") {
			t.Errorf("%s: hard %t, mode %q, count %d, health %t, %q", d.ID, d.Hard, d.Mode, d.Count, d.Health, d.Unhealthy)
		}
		if len(d.Nodes) == 0 || d.GPU == nil || d.Numa < 0 || !strings.HasPrefix(d.Type, "AMD") {
			t.Errorf("%s: %d nodes, GPU %v, numa %d, type %q", d.ID, len(d.Nodes), d.GPU, d.Numa, d.Type)
		}
		if n := uint(len(inv.GPUs)); inv.GPUs[d.Index%n].BDF != d.GPU.BDF {
			t.Errorf("%s: index %d does not lead to GPU %s", d.ID, d.Index, d.GPU.BDF)
		}
		if parentID(d.ID) == d.ID == (d.Partition >= 0) {
			t.Errorf("%s: parent %s of partition %d", d.ID, parentID(d.ID), d.Partition)
		}
	}
	text, err := annotations.EncodeDevices(entries)
	if err != nil {
		t.Fatal(err)
	}
	back, err := annotations.DecodeDevices(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(entries, back); diff != "" {
		t.Errorf("entries after encoding and decoding (-want +got):\n%s", diff)
	}
}

// A GPU whose partitions are not apart in KFD, as kernel 6.8.0-136 lists it.
func TestPartitionedGPUWithoutXCPNodesIsOneDevice(t *testing.T) {
	oneMinor := machine(mi355x, 1, QPX, "nps1")
	for i := range oneMinor.GPUs[0].Nodes {
		oneMinor.GPUs[0].Nodes[i].RenderMinor = 128
	}
	oneNode := machine(mi355x, 1, QPX, "nps1")
	oneNode.GPUs[0].Nodes = oneNode.GPUs[0].Nodes[:1]
	oneNode.GPUs[0].VRAMBytes = oneNode.GPUs[0].Nodes[0].VRAMBytes
	tests := map[string]struct {
		inv  *Inventory
		want string
	}{
		"nodes behind one render minor": {oneMinor, "hard qpx x1: 294912 MiB, 256 CUs, 8 XCCs, qpx_nps1, 0000:05:00.0, nodes 4"},
		"one node":                      {oneNode, "hard qpx x1: 73728 MiB, 64 CUs, 2 XCCs, qpx_nps1, 0000:05:00.0, nodes 1"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			reg := mustRegister(t, test.inv, RegisterOptions{Mode: ModePartition})
			if diff := cmp.Diff([]string{test.want}, briefs(reg)); diff != "" {
				t.Error(diff)
			}
			soft := mustRegister(t, test.inv, RegisterOptions{})
			if soft[0].ID != reg[0].ID || soft[0].Health || soft[0].Hard {
				t.Errorf("in cu mode: %s %s", soft[0].ID, brief(soft[0]))
			}
			checkRegistered(t, test.inv, reg)
		})
	}
}

// In cu mode the reason of a partitioned GPU names what helps.
func TestRemedyOfAPartitionedGPU(t *testing.T) {
	vf := machine(mi300xVF, 1, CPX, "nps1")
	tests := map[string]struct {
		inv  *Inventory
		want string
	}{
		"a GPU that can change": {machine(mi300x, 1, QPX, "nps1"), `in compute partition mode qpx one render node reaches only part of the GPU: ` +
			`run amd-smi set -g 0000:05:00.0 --compute-partition SPX on the drained node, or use operating mode "partition"`},
		"a virtual function": {vf, `in compute partition mode cpx one render node reaches only part of the GPU: ` +
			`set it to spx on the host that owns the physical function, or use operating mode "partition" on this node`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			reg := mustRegister(t, test.inv, RegisterOptions{Unhealthy: map[BDF]string{"0000:05:00.0": "ECC errors"}})
			if len(reg) != 1 || reg[0].Unhealthy != test.want || reg[0].Health {
				t.Errorf("health %t, reason %q, want %q", reg[0].Health, reg[0].Unhealthy, test.want)
			}
		})
	}
}

// Several nodes make a GPU partitioned and hard whatever its mode files say.
func TestModeFollowsFromTheNodes(t *testing.T) {
	tests := map[string]struct {
		product product
		compute ComputeMode
		want    string
	}{
		"two": {mi300x, DPX, "dpx"}, "three": {mi300a, TPX, "tpx"}, "four": {mi300x, QPX, "qpx"}, "one XCC each": {mi300x, CPX, "cpx"},
		"four of one XCC each": {mi308x, CPX, "cpx"},
	}
	for name, test := range tests {
		for file, edit := range map[string]func(*GPU){
			"missing":       func(g *GPU) { g.Compute = "" },
			"unknown word":  func(g *GPU) { g.Compute, g.RawCompute = "", "FOO" },
			"says spx":      func(g *GPU) { g.Compute = SPX },
			"a VF's, spx":   func(g *GPU) { g.Compute, g.ComputeModes, g.VF = SPX, nil, true },
			"all files are": func(g *GPU) { g.Compute, g.Memory, g.ComputeModes, g.MemoryModes = "", "", nil, nil },
		} {
			t.Run(name+", the file "+file, func(t *testing.T) {
				inv := machine(test.product, 1, test.compute, "nps1")
				edit(&inv.GPUs[0])
				reg := mustRegister(t, inv, RegisterOptions{Mode: ModePartition})
				if len(reg) != len(inv.GPUs[0].Nodes) {
					t.Fatalf("%d devices, want %d", len(reg), len(inv.GPUs[0].Nodes))
				}
				for _, d := range reg {
					if !d.Hard || d.Mode != test.want || !d.Health {
						t.Errorf("%s", brief(d))
					}
				}
				checkRegistered(t, inv, reg)
				if soft := mustRegister(t, inv, RegisterOptions{}); len(soft) != 1 || soft[0].Health {
					t.Errorf("in cu mode: %q", briefs(soft))
				}
			})
		}
	}
}

// TestC30ComputePartitionMissing: a GPU without the files, with an empty one or
// an unknown word is one device; a partition has its parent's mode.
func TestC30ComputePartitionMissing(t *testing.T) {
	foo := machine(mi300x, 1, SPX, "nps1")
	foo.GPUs[0].Compute, foo.GPUs[0].RawCompute = "", "FOO"
	for name, inv := range map[string]*Inventory{"files missing or empty": machine(mi210, 1, "", ""), "an unknown word": foo} {
		for _, mode := range []OperatingMode{ModeCU, ModePartition} {
			for _, naming := range []NamingStrategy{NamingSingle, NamingMixed} {
				t.Run(fmt.Sprintf("%s, %s mode, %s", name, mode, naming), func(t *testing.T) {
					reg, err := inv.Register(RegisterOptions{Mode: mode, Naming: naming})
					if err != nil {
						t.Fatal(err)
					}
					d := reg.Devices[0]
					if len(reg.Devices) != 1 || d.Hard || !d.Health || d.Resource != ResourceGPU || d.CustomInfo.PartitionProfile != "" {
						t.Errorf("%q of %s", briefs(reg.Devices), d.Resource)
					}
					noted := slices.Contains(reg.Notes, `0000:05:00.0: current_compute_partition holds "FOO", which is no mode known here`)
					if noted != (inv == foo) {
						t.Errorf("notes %q", reg.Notes)
					}
				})
			}
		}
	}
	for _, d := range mustRegister(t, machine(mi300x, 1, CPX, "nps1"), RegisterOptions{Mode: ModePartition}) {
		if d.Mode != "cpx" || d.CustomInfo.PartitionProfile != "cpx_nps1" {
			t.Errorf("partition %d: mode %q, profile %q", d.Partition, d.Mode, d.CustomInfo.PartitionProfile)
		}
	}
}

// TestC33NUMANodeUnknown: a GPU whose NUMA node the kernel does not know is
// registered with all its partitions, and no -1 leaves the node.
func TestC33NUMANodeUnknown(t *testing.T) {
	inv := machine(mi300x, 2, CPX, "nps1")
	inv.GPUs[0].NUMANode, inv.GPUs[1].NUMANode = nil, ptr(-1)
	for mode, want := range map[OperatingMode]int{ModeCU: 2, ModePartition: 16} {
		devices, err := inv.Devices(RegisterOptions{Mode: mode})
		if err != nil || len(devices) != want {
			t.Fatalf("%s mode: %d devices, want %d, error %v", mode, len(devices), want, err)
		}
		text, err := annotations.EncodeDevices(devices)
		// A member that is absent is 0, HAMi's "not said".
		if err != nil || strings.Contains(text, `"numa":`) {
			t.Errorf("%s mode: error %v, annotation %s, want no numa in it", mode, err, text)
		}
	}
}

// TestC34SixtyFourPartitions: 64 partitions, and 64 whole GPUs in ten shares,
// are 64 and 640 IDs of one resource, all healthy, in a message far below the
// 4 MiB of gRPC.
func TestC34SixtyFourPartitions(t *testing.T) {
	tests := map[string]struct {
		inv  *Inventory
		opts RegisterOptions
		ids  int
	}{
		"8 GPUs in CPX in partition mode":    {machine(mi300x, 8, CPX, "nps1"), RegisterOptions{Mode: ModePartition}, 64},
		"64 whole GPUs in cu mode":           {machine(mi300x, 64, SPX, "nps1"), RegisterOptions{SplitCount: 10}, 640},
		"64 GPUs in the most shares allowed": {machine(mi300x, 64, SPX, "nps1"), RegisterOptions{SplitCount: MaxSplitCount}, 64 * MaxSplitCount},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			reg := mustRegister(t, test.inv, test.opts)
			if len(reg) != 64 {
				t.Errorf("%d devices, want 64", len(reg))
			}
			if diff := cmp.Diff([]string{ResourceGPU}, Resources(reg)); diff != "" {
				t.Error(diff)
			}
			checkRegistered(t, test.inv, reg)
			ids := map[string]bool{}
			message := 0
			for _, d := range reg {
				if !d.Health {
					t.Errorf("%s: %s", d.ID, d.Unhealthy)
				}
				for _, id := range d.KubeletIDs {
					ids[id] = true
					// kubelet's Device: ID, health, one NUMA node, and their tags.
					message += len(id) + len("Healthy") + 12
				}
			}
			if len(ids) != test.ids || message > 4<<20 {
				t.Errorf("%d IDs in about %d bytes, want %d below 4 MiB", len(ids), message, test.ids)
			}
			entries, err := test.inv.Devices(test.opts)
			if err != nil {
				t.Fatal(err)
			}
			if text, err := annotations.EncodeDevices(entries); err != nil || len(text) > annotations.MaxBytes/3 {
				t.Errorf("annotation of %d bytes, error %v", len(text), err)
			}
		})
	}
}
