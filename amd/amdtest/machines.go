package amdtest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/Project-HAMi/hami-amd/amd"
	"github.com/Project-HAMi/hami-amd/annotations"
)

// shape is a kind of machine.
type shape struct {
	gpus, partitions, hive int // partitions of each GPU, GPUs linked by XGMI
	count                  int32
	device                 annotations.Device
}

func shapes() map[string]shape {
	return map[string]shape{
		"8 x MI300X": {gpus: 8, partitions: 1, hive: 8, count: 10, device: annotations.Device{
			Devmem: 196288, Devcore: 304, Type: "AMD Instinct MI300X", CustomInfo: annotations.CustomInfo{NumXCC: 8},
		}},
		"8 x MI300X CPX": {gpus: 8, partitions: 8, hive: 8, count: 1, device: annotations.Device{
			Devmem: 24536, Devcore: 38, Type: "AMD Instinct MI300X", Mode: "cpx", CustomInfo: annotations.CustomInfo{NumXCC: 1},
		}},
		"8 x MI210": {gpus: 8, partitions: 1, hive: 4, count: 10, device: annotations.Device{
			Devmem: 65520, Devcore: 104, Type: "AMD Instinct MI210",
		}},
		"4 x RX 7900 XTX": {gpus: 4, partitions: 1, count: 4, device: annotations.Device{
			Devmem: 24560, Devcore: 96, Type: "AMD Radeon RX 7900 XTX", CustomInfo: annotations.CustomInfo{CUsPerWGP: 2},
		}},
	}
}

// Machines are the names of the machines that Run tries.
func Machines() []string { return slices.Sorted(maps.Keys(shapes())) }

// Devices are the devices of one of Machines, as its node registers them; nil
// for another name.
func Devices(machine string) []annotations.Device {
	s := shapes()[machine]
	var devices []annotations.Device
	for gpu := range s.gpus {
		for part := range s.partitions {
			d := s.device
			d.ID = fmt.Sprintf("gpu-%d", gpu)
			if s.partitions > 1 {
				d.ID += fmt.Sprintf("-p%d", part)
			}
			d.Index, d.Count, d.Numa, d.Health = uint(len(devices)), s.count, gpu*2/s.gpus, true
			d.CustomInfo.PCIBDF = bdf(gpu)
			for peer := range s.gpus {
				if s.hive > 0 && peer != gpu && peer/s.hive == gpu/s.hive {
					d.CustomInfo.XGMIPeers = append(d.CustomInfo.XGMIPeers, bdf(peer))
				}
			}
			devices = append(devices, d)
		}
	}
	return devices
}

func bdf(gpu int) string { return fmt.Sprintf("0000:%02x:00.0", 5+gpu*16) }

// newCase loads a machine and makes up a request.
func newCase(machine string, seed uint64) *testCase {
	c := &testCase{rng: rand.New(rand.NewPCG(seed, 1))}
	load := c.rng.Float64()
	for _, d := range Devices(machine) {
		u := amd.UsageOf(&d)
		for u.Used < u.Count && c.rng.Float64() < load {
			c.hold(&u)
		}
		u.Health = c.rng.IntN(12) > 0
		u.Cordoned = c.rng.IntN(12) == 0
		c.usage = append(c.usage, u)
	}
	c.req = amd.Request{Count: 1 + int32(c.rng.IntN(4)), Cores: 1 + int32(c.rng.IntN(100))}
	switch c.rng.IntN(4) {
	case 0:
		c.req.MemoryMiB = 1 + c.rng.Int32N(30000)
	case 1:
		c.req.MemoryPercent = 1 + c.rng.Int32N(100)
	case 2:
		c.req.Cores = 100
	case 3:
		c.req.MemoryMiB, c.req.Cores = 1+c.rng.Int32N(30000), 0
	}
	c.pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: "default", Annotations: c.annotations()}}
	return c
}

// hold adds what one more container might have.
func (c *testCase) hold(u *amd.Usage) {
	if u.Hard() {
		u.Add(annotations.Grant{MemoryMiB: u.MemoryMiB, CUs: u.CUs})
		return
	}
	g := annotations.Grant{MemoryMiB: 1 + c.rng.Int32N(u.MemoryMiB/2), CUs: int32(u.Geometry().RoundUp(int(c.rng.Int32N(u.CUs / 2))))}
	if u.UsedMiB+g.MemoryMiB <= u.MemoryMiB && u.UsedCUs+g.CUs <= u.CUs {
		u.Add(g)
	}
}

// annotations are wishes of one kind or another.
func (c *testCase) annotations() map[string]string {
	policies := []string{"", "binpack", "spread", "mutex", "topology-aware", "numa", "numa,binpack", "binpack,mutex,topology-aware"}
	annos := map[string]string{}
	if policy := policies[c.rng.IntN(len(policies))]; policy != "" {
		annos[annotations.GPUSchedulerPolicyKey] = policy
	}
	one := func() string { return c.usage[c.rng.IntN(len(c.usage))].ID }
	switch c.rng.IntN(8) {
	case 0:
		annos[annotations.NoUseUUIDKey] = one() + "," + one()
	case 1:
		annos[annotations.UseUUIDKey] = one() + " , " + one() + "," + one()
	case 2:
		annos[annotations.UseTypeKey] = "mi300x, radeon"
	case 3:
		annos[annotations.NUMABindKey] = "true"
	}
	return annos
}
