package allocate_test

import (
	"fmt"

	"github.com/Project-HAMi/hami-amd/allocate"
	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/cumask"
)

// A pod with two containers on one MI300X whose first 76 CUs another pod
// holds.
func ExamplePlan() {
	grants, err := annotations.DecodePod("A,AMD Instinct MI300X,16384,76:;A,AMD Instinct MI300X,8192,38:;")
	if err != nil {
		fmt.Println(err)
		return
	}
	plan, err := allocate.Plan(
		allocate.Pod{
			UID:        "6c1a0f4e-0000-4000-8000-000000000001",
			Containers: []allocate.PodContainer{{Name: "chat", Asks: true}, {Name: "rerank", Asks: true}},
			Grants:     grants,
		},
		allocate.Node{
			Devices: node(mi300x(0)).Devices,
			Held:    map[string]cumask.Set{"A": cumask.Range(0, 75)},
		})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range plan.Containers {
		fmt.Println(c.Name)
		for _, v := range c.Env[:4] {
			fmt.Printf("  %s=%s\n", v.Name, v.Value)
		}
	}
	fmt.Println("pod holds", plan.CUs["A"])
	// Output:
	// chat
	//   ROCR_VISIBLE_DEVICES=GPU-00000000000000a0
	//   HIP_VISIBLE_DEVICES=0
	//   HSA_CU_MASK=0:76-151
	//   HIP_DEVICE_MEMORY_LIMIT=16384m
	// rerank
	//   ROCR_VISIBLE_DEVICES=GPU-00000000000000a0
	//   HIP_VISIBLE_DEVICES=0
	//   HSA_CU_MASK=0:152-189
	//   HIP_DEVICE_MEMORY_LIMIT=8192m
	// pod holds 76-189
}
