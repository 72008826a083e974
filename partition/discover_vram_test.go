package partition

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/Project-HAMi/hami-amd/internal/fixture/fixturetest"
)

// vramMiB is the size in MiB, -1 where it is unknown.
func vramMiB(size *uint64) int {
	if size == nil {
		return -1
	}
	return int(*size >> 20)
}

func TestC29VRAMOfNodes(t *testing.T) {
	bank := func(heap int, size string) string {
		return fmt.Sprintf("heap_type %d\nsize_in_bytes %s\nflags 0\nwidth 8192\nmem_clk_max 1300\n", heap, size)
	}
	for name, test := range map[string]struct {
		banks []string
		want  int
		notes int
	}{
		"a: bank of a partition":     {[]string{bank(1, "25769803776")}, 24576, 0},
		"b: bank 0 is system memory": {[]string{bank(0, "68719476736"), bank(2, "17179869184")}, 16384, 0},
		"public and private":         {[]string{bank(1, "268435456"), bank(2, "16911433728")}, 16384, 0},
		"c: system memory only":      {[]string{bank(0, "68719476736")}, -1, 1},
		"d: size is a word":          {[]string{bank(1, "large")}, -1, 1},
		"d: no size":                 {[]string{"heap_type 1\n"}, -1, 1},
		"d: empty file":              {[]string{""}, -1, 1},
		"d: size beyond any GPU":     {[]string{bank(1, "18446744073709551615")}, -1, 1},
		"d: sum beyond 64 bits":      {[]string{bank(1, "9223372036854775808"), bank(2, "9223372036854775808")}, -1, 1},
		"size 0":                     {[]string{bank(1, "0")}, -1, 1},
		"no banks: the function's":   {nil, 196592, 0},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			writeNode(t, root, 1, nil)
			writeFunction(t, root, "0000:05:00.0", "0x74a1")
			// What an unknown size must not be replaced by.
			fixturetest.Write(t, root, "bus/pci/devices/0000:05:00.0/mem_info_vram_total", "206141652992\n")
			for i, b := range test.banks {
				fixturetest.Write(t, root, nodeFile(1, fmt.Sprintf("mem_banks/%d/properties", i)), b)
			}
			inv := discoverTree(t, root)
			if got := vramMiB(inv.GPUs[0].VRAMBytes); got != test.want {
				t.Errorf("want %d MiB, found %d", test.want, got)
			}
			if len(test.banks) > 0 && vramMiB(inv.GPUs[0].Nodes[0].VRAMBytes) != test.want {
				t.Errorf("node: want %d MiB, found %d", test.want, vramMiB(inv.GPUs[0].Nodes[0].VRAMBytes))
			}
			if len(inv.Notes) != test.notes {
				t.Errorf("want %d notes, found %q", test.notes, inv.Notes)
			}
		})
	}
}

// A partition is not given its parent's 192 GiB.
func TestC29VRAMOfPartitions(t *testing.T) {
	inv := discoverTree(t, fixturetest.Machine(t, "mi300x-cpx-8"))
	var got []int
	for _, n := range inv.GPUs[0].Nodes {
		got = append(got, vramMiB(n.VRAMBytes))
	}
	if diff := cmp.Diff([]int{24576, 24576, 24576, 24576, 24576, 24576, 24576, 24560}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The memory of an APU is what HIP can allocate, and a note tells of the
// carve-out: never 512 MiB in silence, never the host's memory in silence.
func TestC29VRAMOfAnAPU(t *testing.T) {
	const bank, carveOut, gtt = "mem_banks/0/properties", "bus/pci/devices/0000:c2:00.0/mem_info_vram_total", "bus/pci/devices/0000:c2:00.0/mem_info_gtt_total"
	const note = "0000:c2:00.0: APU: its %d MiB are shared with the host; carve-out: %s"
	for name, test := range map[string]struct {
		edit func(root string)
		want int
		note string
	}{
		"e: bank is the GTT limit": {func(string) {}, 112640, fmt.Sprintf(note, 112640, "512 MiB")},
		"older kernel: bank is the carve-out": {func(root string) {
			fixturetest.SetLine(t, root, nodeFile(1, bank), "size_in_bytes", "536870912")
		}, 512, fmt.Sprintf(note, 512, "512 MiB")},
		"no bank: GTT": {func(root string) {
			fixturetest.Remove(t, root, nodeFile(1, "mem_banks"))
		}, 112640, fmt.Sprintf(note, 112640, "512 MiB")},
		"no bank, no GTT": {func(root string) {
			fixturetest.Remove(t, root, nodeFile(1, "mem_banks"))
			fixturetest.Remove(t, root, gtt)
		}, 512, fmt.Sprintf(note, 512, "512 MiB")},
		"no carve-out": {func(root string) {
			fixturetest.Remove(t, root, carveOut)
		}, 112640, fmt.Sprintf(note, 112640, "unknown")},
		"nothing": {func(root string) {
			fixturetest.Remove(t, root, nodeFile(1, "mem_banks"))
			fixturetest.Remove(t, root, gtt)
			fixturetest.Remove(t, root, carveOut)
		}, -1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			root := fixturetest.Machine(t, "apu-8060s")
			test.edit(root)
			inv := discoverTree(t, root)
			if g := inv.GPUs[0]; !g.APU || vramMiB(g.VRAMBytes) != test.want {
				t.Errorf("want an APU of %d MiB, found %t, %d", test.want, g.APU, vramMiB(g.VRAMBytes))
			}
			if got := strings.Join(inv.Notes, "\n"); got != test.note {
				t.Errorf("want note %q, found %q", test.note, got)
			}
		})
	}
}
