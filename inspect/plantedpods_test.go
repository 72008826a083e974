package inspect

import (
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/Project-HAMi/hami-amd/amd"
	"github.com/Project-HAMi/hami-amd/annotations"
)

func env(c *corev1.Container, name, value string) {
	c.Env = append(c.Env, corev1.EnvVar{Name: name, Value: value})
}

var plantedInSpecs = map[string]planted{
	"a percentage beyond 100": {
		func(r *rig) {
			r.pod("pending").Spec.Containers[0].Resources.Limits[amd.DefaultCoreName] = resource.MustParse("101")
		},
		[]string{"RequestInvalid pod team/pending main"},
	},
	"memory without a GPU": {
		func(r *rig) {
			r.pods = append(r.pods, newPod("memory-only", ask("main", 0, 8192, 0)))
		},
		[]string{"RequestInvalid pod team/memory-only main"},
	},
	"a resource with a slip": {
		func(r *rig) {
			r.pod("pending").Spec.Containers[0].Resources.Limits["amd.com/gpumen"] = resource.MustParse("1000")
		},
		[]string{"RequestUnknown pod team/pending main"},
	},
	"a sidecar that asks": {
		func(r *rig) {
			r.pods = append(r.pods, newPod("side", sidecar(ask("log", 1, 100, 1)), ask("main", 0, 0, 0)))
		},
		[]string{"SidecarRequest pod team/side log"},
	},
	"a privileged container beside a slice": {
		func(r *rig) {
			yes := true
			r.pod("slice-a").Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: &yes}
		},
		[]string{"PrivilegedTenant pod team/slice-a main"},
	},
	"a mask in the spec": {
		func(r *rig) { env(&r.pod("slice-a").Spec.Containers[0], "HSA_CU_MASK", "0:0-303") },
		[]string{"EnvOverride pod team/slice-a main"},
	},
	"a memory limit in the spec": {
		func(r *rig) { env(&r.pod("slice-a").Spec.Containers[0], "HIP_DEVICE_MEMORY_LIMIT", "0") },
		[]string{"EnvOverride pod team/slice-a main"},
	},
	"another LD_AUDIT": {
		func(r *rig) { env(&r.pod("slice-a").Spec.Containers[0], "LD_AUDIT", "/opt/trace.so") },
		[]string{"HookReplaced pod team/slice-a main"},
	},
	"LD_AUDIT from a reference": {
		func(r *rig) {
			c := &r.pod("slice-a").Spec.Containers[0]
			c.Env = append(c.Env, corev1.EnvVar{Name: "LD_AUDIT", ValueFrom: &corev1.EnvVarSource{}})
		},
		[]string{"HookReplaced pod team/slice-a main"},
	},
}

var plantedOnPods = map[string]planted{
	"grants of a pod that asks for nothing": {
		func(r *rig) {
			r.pod("no-gpu").Annotations = map[string]string{annotations.AllocatedKey: "A,AMD X,1,2:;"}
		},
		[]string{"AnnotationsForged pod team/no-gpu"},
	},
	"CUs of a pod that is not bound": {
		func(r *rig) {
			r.pod("pending").Annotations = map[string]string{annotations.CUAllocatedKey: `{"A":"0-75"}`}
		},
		[]string{"AnnotationsForged pod team/pending"},
	},
	"containers' CUs of a pod that is not bound": {
		func(r *rig) {
			r.pod("pending").Annotations = map[string]string{annotations.CUContainersKey: `{}`}
		},
		[]string{"AnnotationsForged pod team/pending"},
	},
	"grants without a node": {
		func(r *rig) { delete(r.pod("chosen").Annotations, annotations.VGPUNodeKey) },
		[]string{"AnnotationsForged pod team/chosen"},
	},
	"something to allocate and no grants": {
		func(r *rig) {
			r.pod("pending").Annotations = map[string]string{annotations.ToAllocateKey: "A,AMD X,1,2:;"}
		},
		[]string{"AnnotationsForged pod team/pending"},
	},
	"success before binding": {
		func(r *rig) { r.pod("chosen").Annotations[annotations.BindPhaseKey] = "success" },
		[]string{"AnnotationsForged pod team/chosen"},
	},
	"bound past HAMi": {
		func(r *rig) {
			p := r.pod("pending")
			p.Spec.NodeName = "cu-1"
			running(p)
		},
		[]string{"NotGranted pod team/pending"},
	},
	"broken grants": {
		func(r *rig) { r.pod("slice-a").Annotations[annotations.AllocatedKey] = "A,AMD X,16g,76:;" },
		[]string{"GrantsUnreadable pod team/slice-a"},
	},
	"more grants than containers": {
		func(r *rig) { r.pod("slice-a").Annotations[annotations.AllocatedKey] += "A,AMD X,1,2:;" },
		[]string{"GrantsMismatch pod team/slice-a"},
	},
	"one device for two": {
		func(r *rig) {
			r.pod("slice-a").Spec.Containers[0].Resources.Limits[amd.DefaultCountName] = resource.MustParse("2")
		},
		[]string{"GrantsMismatch pod team/slice-a main"},
	},
	"broken rest of the grants": {
		func(r *rig) { r.pod("slice-a").Annotations[annotations.ToAllocateKey] = "x" },
		[]string{"ToAllocateUnreadable pod team/slice-a"},
	},
	"another rest of the grants": {
		func(r *rig) { r.pod("binding").Annotations[annotations.ToAllocateKey] = "A,AMD X,1,2:;" },
		[]string{"ToAllocateDiffers pod team/binding"},
	},
	"a rest although it runs": {
		func(r *rig) {
			p := r.pod("slice-a")
			p.Annotations[annotations.ToAllocateKey] = p.Annotations[annotations.AllocatedKey]
		},
		[]string{"ToAllocateLeft pod team/slice-a"},
	},
	"on another node than chosen": {
		func(r *rig) { r.pod("slice-a").Annotations[annotations.VGPUNodeKey] = "rdna-1" },
		[]string{"NodeDiffers pod team/slice-a"},
	},
	"on a node nobody chose": {
		func(r *rig) { delete(r.pod("slice-a").Annotations, annotations.VGPUNodeKey) },
		[]string{"NodeDiffers pod team/slice-a"},
	},
	"without the label": {
		func(r *rig) { delete(r.pod("slice-a").Labels, annotations.VGPUNodeKey) },
		[]string{"LabelDiffers pod team/slice-a"},
	},
	"on a node that is gone": {
		func(r *rig) {
			r.nodes = r.nodes[:1]
			for _, name := range []string{"partition"} {
				for i, p := range r.pods {
					if p.Name == name {
						r.pods = append(r.pods[:i:i], r.pods[i+1:]...)
						break
					}
				}
			}
		},
		[]string{"NodeGone pod team/rdna"},
	},
	"on a node without registration": {
		func(r *rig) {
			n := r.node("rdna-1")
			n.Annotations[annotations.NodeRegisterKey] = "Deleted_2026-08-21 11:00:00"
			delete(n.Status.Capacity, amd.DefaultCountName)
		},
		[]string{"NodeNotRegistered pod team/rdna"},
	},
	"chosen long ago": {
		func(r *rig) {
			r.pod("chosen").Annotations[annotations.VGPUTimeKey] = annotations.FormatTime(noon.Add(-time.Hour))
		},
		[]string{"GrantsUnbound pod team/chosen"},
	},
	"refused and alive": {
		func(r *rig) { r.pod("slice-a").Annotations[annotations.BindPhaseKey] = "failed" },
		[]string{"BindFailed pod team/slice-a"},
	},
	"a phase nobody knows": {
		func(r *rig) { r.pod("slice-a").Annotations[annotations.BindPhaseKey] = "soon" },
		[]string{"BindPhaseInvalid pod team/slice-a"},
	},
	"a phase that was not finished": {
		func(r *rig) { r.pod("slice-a").Annotations[annotations.BindPhaseKey] = "allocating" },
		[]string{"BindPhaseLeft pod team/slice-a"},
	},
	"broken CUs": {
		func(r *rig) { r.pod("slice-a").Annotations[annotations.CUAllocatedKey] = `{"A":"7-4"}` },
		[]string{"CUsUnreadable pod team/slice-a"},
	},
	"broken CUs of containers": {
		func(r *rig) { r.pod("slice-a").Annotations[annotations.CUContainersKey] = `{"main":1}` },
		[]string{"CUsUnreadable pod team/slice-a"},
	},
	"CUs of another device": {
		func(r *rig) {
			r.edit("slice-a", annotations.CUAllocatedKey, "{", `{"A":"0-3",`)
		},
		[]string{"MaskWithoutGrant pod team/slice-a"},
	},
	"one kubelet device ID for two pods": {
		func(r *rig) {
			id := strings.Split(r.pod("slice-a").Annotations[annotations.CUContainersKey], `"`)[5]
			other := strings.Split(r.pod("two-gpus").Annotations[annotations.CUContainersKey], `"`)[5]
			r.edit("two-gpus", annotations.CUContainersKey, other, id)
		},
		[]string{"KubeletIDsShared pod team/two-gpus main"},
	},
	"containers that do not add up": {
		func(r *rig) { r.edit("slice-a", annotations.CUAllocatedKey, "0-75", "76-151") },
		[]string{"ContainersDisagree pod team/slice-a"},
	},
	"CUs of a container that has none": {
		func(r *rig) {
			r.edit("inits", annotations.CUContainersKey, `{"prep"`, `{"web":{"ids":["x"],"cus":{}},"prep"`)
		},
		[]string{"ContainersDisagree pod team/inits"},
	},
}

var plantedInGrants = map[string]planted{
	"a device the node does not have": {
		func(r *rig) { r.edit("slice-a", "", r.grant("slice-a", 0, 0).UUID, "gone") },
		[]string{"UnknownDevice pod team/slice-a main"},
	},
	"more than the device has": {
		func(r *rig) {
			r.edit("slice-a", annotations.AllocatedKey, ",49152,", ",999999999,")
		},
		[]string{"GrantTooLarge pod team/slice-a main"},
	},
	"more memory than asked for": {
		func(r *rig) { r.edit("slice-a", annotations.AllocatedKey, ",49152,", ",65536,") },
		[]string{"GrantDiffers pod team/slice-a main"},
	},
	"more CUs than asked for": {
		func(r *rig) {
			r.edit("slice-a", annotations.AllocatedKey, ",76:", ",152:")
			r.edit("slice-a", "", `"0-75"`, `"0-151"`)
		},
		[]string{"GrantDiffers pod team/slice-a main"},
	},
	"a slice without memory": {
		func(r *rig) {
			delete(r.pod("slice-a").Spec.Containers[0].Resources.Limits, amd.DefaultMemoryName)
			r.edit("slice-a", annotations.AllocatedKey, ",49152,", ",0,")
		},
		[]string{"GrantWithoutMemory pod team/slice-a main"},
	},
	"CUs that are no whole units": {
		func(r *rig) {
			r.pod("slice-a").Spec.Containers[0].Resources.Limits[amd.DefaultCoreName] = resource.MustParse("1")
			r.edit("slice-a", annotations.AllocatedKey, ",76:", ",3:")
			r.edit("slice-a", "", `"0-75"`, `"0-7"`)
		},
		[]string{"GrantNotWholeUnits pod team/slice-a main"},
	},
	"a partition cut into slices": {
		func(r *rig) {
			g := r.grant("partition", 0, 0)
			before, err := annotations.EncodePod(annotations.PodGrants{{g}})
			if err != nil {
				r.t.Fatal(err)
			}
			g.MemoryMiB = 8192
			after, err := annotations.EncodePod(annotations.PodGrants{{g}})
			if err != nil {
				r.t.Fatal(err)
			}
			r.edit("partition", annotations.AllocatedKey, strings.TrimSuffix(before, ";"), strings.TrimSuffix(after, ";"))
		},
		[]string{"PartitionGrantPartly pod team/partition main"},
	},
}

var plantedInMasks = map[string]planted{
	"no CUs recorded": {
		func(r *rig) {
			delete(r.pod("slice-a").Annotations, annotations.CUAllocatedKey)
			delete(r.pod("slice-a").Annotations, annotations.CUContainersKey)
		},
		[]string{"UnlimitedTenant pod team/slice-a main"},
	},
	"a CU beyond the device": {
		func(r *rig) { r.edit("slice-a", "", `"0-75"`, `"0-74,304"`) },
		[]string{"MaskBeyondDevice pod team/slice-a main"},
	},
	"more CUs than granted": {
		func(r *rig) { r.edit("slice-a", "", `"0-75"`, `"0-303"`) },
		[]string{"MaskSizeDiffers pod team/slice-a main"},
	},
	"fewer CUs than granted": {
		func(r *rig) { r.edit("slice-a", "", `"0-75"`, `"0-7"`) },
		[]string{"MaskSizeDiffers pod team/slice-a main"},
	},
	"an XCC without a CU": {
		func(r *rig) {
			var list []string
			for cu := range 87 {
				if cu%8 != 7 {
					list = append(list, itoa(cu))
				}
			}
			r.edit("slice-a", "", `"0-75"`, `"`+strings.Join(list[:76], ",")+`"`)
		},
		[]string{"MaskStarvesXCC pod team/slice-a main"},
	},
	"half a WGP": {
		func(r *rig) { r.edit("rdna", "", `"0-47"`, `"1-48"`) },
		[]string{"MaskHalfWGP pod team/rdna main"},
	},
	"two containers on the same CUs": {
		func(r *rig) {
			pod := newPod("both", ask("a", 1, 1000, 10), ask("b", 1, 1000, 10))
			pod.Annotations = map[string]string{annotations.UseTypeKey: "MI300X"}
			pod = r.run(pod)
			a, b := r.grant("both", 0, 0).UUID, r.grant("both", 1, 0).UUID
			r.pods = r.pods[len(r.pods)-1:] // nobody else, so that the device can be any
			pod.Annotations[annotations.AllocatedKey] = strings.ReplaceAll(pod.Annotations[annotations.AllocatedKey], b, a)
			pod.Annotations[annotations.CUAllocatedKey] = `{"` + a + `":"0-59"}`
			pod.Annotations[annotations.CUContainersKey] = `{"a":{"ids":["x"],"cus":{"` + a + `":"0-29"}},"b":{"ids":["y"],"cus":{"` + a + `":"29-58"}}}`
			delete(r.node("cu-1").Annotations, annotations.NodeLockKey)
		},
		[]string{"ContainersDisagree pod team/both", "ContainersOverlap pod team/both b"},
	},
	"a pod's union beyond its grants": {
		func(r *rig) {
			// As a plugin leaves it that records no containers.
			delete(r.pod("inits").Annotations, annotations.CUContainersKey)
			id := r.grant("inits", 0, 0).UUID
			r.edit("inits", "", r.grant("inits", 1, 0).UUID, id)
			r.edit("inits", "", r.grant("inits", 2, 0).UUID, id)
			r.pod("inits").Annotations[annotations.CUAllocatedKey] = `{"` + id + `":"0-200"}`
		},
		[]string{"MaskSizeDiffers pod team/inits prep"},
	},
}

func itoa(n int) string { return strconv.Itoa(n) }
