package plugin

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/amd"
	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/partition"
)

// switchPartitions puts the idle GPUs into a compute partition mode. A GPU that
// cannot be switched is logged and stays as it is; so do all when it is not
// known which of them pods hold.
func (p *Plugin) switchPartitions(ctx context.Context, to partition.ComputeMode) {
	results, err := p.trySwitch(ctx, to)
	if err != nil {
		p.log.Error(err, "Switching compute partitions failed, the GPUs stay as they are")
	}
	for _, r := range results {
		p.log.Info("Compute partition of " + r.String())
	}
}

func (p *Plugin) trySwitch(ctx context.Context, to partition.ComputeMode) ([]partition.SwitchResult, error) {
	inv, err := partition.Discover(p.cfg.sysfs())
	if err != nil {
		return nil, err
	}
	whole, err := inv.Registered(partition.RegisterOptions{Mode: partition.ModeCU, NodeName: p.cfg.NodeName})
	if err != nil {
		return nil, err
	}
	exclude, partitions, _, err := p.cfg.excludeByID(partition.ModePartition, inv)
	if err != nil {
		return nil, err
	}
	exclude = append(exclude, p.cfg.ExcludeGPUs...)
	for id := range partitions { // a switch would make other partitions
		if gpu := gpuOfID(whole, id); gpu != nil {
			exclude = append(exclude, string(gpu.BDF))
		}
	}
	opts := partition.SwitchOptions{To: to, Exclude: exclude}
	if !p.cfg.Standalone {
		c := &cluster{client: p.deps.Client, node: p.cfg.NodeName}
		pods, err := c.readPods(ctx)
		if err != nil {
			return nil, fmt.Errorf("listing the pods of node %q: %w", p.cfg.NodeName, err)
		}
		opts.InUse = heldGPUs(whole, pods.Items)
	}
	return partition.Switch(ctx, p.cfg.sysfs(), inv, opts)
}

// heldGPUs are the GPUs that live pods hold, with the reason. Which GPU a pod
// of a resource outside of HAMi holds, or one whose annotation cannot be read,
// is not known here: it could be any.
func heldGPUs(whole []partition.Registered, pods []corev1.Pod) map[partition.BDF]string {
	held := make(map[partition.BDF]string)
	for i := range pods {
		pod := &pods[i]
		asks, outside := asksForGPU(pod)
		if !asks || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		name := pod.Namespace + "/" + pod.Name
		grants, err := annotations.DecodePod(pod.Annotations[annotations.AllocatedKey])
		if outside || err != nil || len(grants) == 0 {
			for j := range whole {
				held[whole[j].GPU.BDF] = "pod " + name + " may hold it"
			}
			continue
		}
		for _, container := range grants {
			for _, g := range container {
				if gpu := gpuOfID(whole, g.UUID); gpu != nil {
					held[gpu.BDF] = "pod " + name + " holds it"
				}
			}
		}
	}
	return held
}

// gpuOfID finds the GPU of a register ID, its own or that of a partition of it
// in whatever mode.
func gpuOfID(whole []partition.Registered, id string) *partition.GPU {
	for i := range whole {
		rest, ok := strings.CutPrefix(id, whole[i].ID)
		if ok && (rest == "" || isPartitionSuffix(rest)) {
			return whole[i].GPU
		}
	}
	return nil
}

// isPartitionSuffix accepts "-p" and digits.
func isPartitionSuffix(s string) bool {
	digits, ok := strings.CutPrefix(s, "-p")
	return ok && digits != "" && strings.Trim(digits, "0123456789") == ""
}

// asksForGPU reports whether a pod asks for any resource of AMD's, and whether
// for one that HAMi does not schedule.
func asksForGPU(pod *corev1.Pod) (asks, outside bool) {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			for name := range list[i].Resources.Limits {
				switch name {
				case amd.DefaultCountName, amd.DefaultMemoryName, amd.DefaultMemoryPercentageName, amd.DefaultCoreName, amd.DefaultPriorityName:
					asks = true
				default:
					if strings.HasPrefix(string(name), "amd.com/") {
						asks, outside = true, true
					}
				}
			}
		}
	}
	return asks, outside
}
