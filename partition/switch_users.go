package partition

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Where KFD lists the processes that have it open: one folder per process,
// named by pid, with vram_<gpu_id> (bytes allocated on a GPU, a file for every
// GPU of the host) and queues/<id>/gpuid (kfd_process.c).
const kfdProc = "class/kfd/kfd/proc"

// processes are pids, ascending.
type processes struct {
	all     []int // every process that has KFD open
	thisGPU []int // those with memory or a queue on the GPU asked for
}

// kfdUsers lists the processes that have KFD open, and which of them use the
// given GPU; nil asks for no GPU. Processes that end meanwhile are no error.
func kfdUsers(t *tree, g *GPU) (processes, error) {
	var p processes
	names, err := t.names(kfdProc)
	if isAbsent(err) {
		return p, nil
	}
	if err != nil {
		return p, fmt.Errorf("looking for users of KFD: %w", err)
	}
	ids := gpuIDs(t, g)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid <= 0 {
			continue
		}
		p.all = append(p.all, pid)
		if len(ids) > 0 && uses(t, kfdProc+"/"+name, ids) {
			p.thisGPU = append(p.thisGPU, pid)
		}
	}
	slices.Sort(p.all)
	slices.Sort(p.thisGPU)
	return p, nil
}

// gpuIDs reads the numbers by which KFD's process folders name the GPU's
// nodes. They change with every switch and are good for one look.
func gpuIDs(t *tree, g *GPU) map[string]bool {
	out := make(map[string]bool)
	if g == nil {
		return out
	}
	for i := range g.Nodes {
		text, err := t.read("class/kfd/kfd/topology/nodes/" + strconv.Itoa(g.Nodes[i].ID) + "/gpu_id")
		if id := strings.TrimSpace(text); err == nil && id != "" && id != "0" {
			out[id] = true
		}
	}
	return out
}

// uses reports whether the process has memory or a queue on one of the GPUs.
func uses(t *tree, dir string, ids map[string]bool) bool {
	for id := range ids {
		if text, err := t.read(dir + "/vram_" + id); err == nil {
			if n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64); err != nil || n > 0 {
				return true
			}
		}
	}
	queues, err := t.names(dir + "/queues")
	if err != nil {
		return false
	}
	for _, q := range queues {
		if text, err := t.read(dir + "/queues/" + q + "/gpuid"); err == nil && ids[strings.TrimSpace(text)] {
			return true
		}
	}
	return false
}

// pciFile is the path of a file of a PCI function below a sysfs root.
func pciFile(bdf BDF, name string) string { return "bus/pci/devices/" + string(bdf) + "/" + name }
