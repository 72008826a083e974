package amd_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/Project-HAMi/hami-amd/amd"
	"github.com/Project-HAMi/hami-amd/annotations"
)

// register is what a node with two MI300X writes of itself.
const register = `[
	{"id":"GPU-a","index":0,"count":10,"devmem":196288,"devcore":304,"type":"AMD Instinct MI300X","numa":0,"health":true,"custominfo":{"numXCC":8}},
	{"id":"GPU-b","index":1,"count":10,"devmem":196288,"devcore":304,"type":"AMD Instinct MI300X","numa":1,"health":true,"custominfo":{"numXCC":8}}
]`

func node(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, Annotations: map[string]string{annotations.NodeRegisterKey: register},
	}}
}

// pod asks for GPUs, MiB and percent of CUs of each; "" asks for none.
func pod(name, count, memory, cores string) *corev1.Pod {
	limits := corev1.ResourceList{}
	for resourceName, value := range map[corev1.ResourceName]string{
		"amd.com/gpu": count, "amd.com/gpumem": memory, "amd.com/gpucores": cores,
	} {
		if value != "" {
			limits[resourceName] = resource.MustParse(value)
		}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{
			{Name: "main", Resources: corev1.ResourceRequirements{Limits: limits}},
		}},
	}
}

// One decision from objects as the API server has them.
func ExampleDevices_Schedule() {
	devices, err := amd.New(amd.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	// One GPU, 8 GiB of its memory, a quarter of its CUs.
	decision, err := devices.Schedule(pod("train", "1", "8192", "25"), []*corev1.Node{node("node-1")}, nil, amd.ScheduleOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(decision.Node)
	fmt.Println(decision.Annotations[annotations.AllocatedKey])
	// Output:
	// node-1
	// GPU-b,AMD Instinct MI300X,8192,76:;
}

// A scheduler that lives on keeps books of what the pods hold.
func ExampleLedger() {
	devices, err := amd.New(amd.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	ledger := amd.NewLedger(devices)
	if err := ledger.SetNode(node("node-1")); err != nil {
		fmt.Println(err)
	}
	for _, name := range []string{"first", "second", "third"} {
		p := pod(name, "1", "", "")
		decision, err := ledger.Schedule(p, amd.ScheduleOptions{})
		switch {
		case err != nil:
			fmt.Println(err)
		case decision.Node == "":
			fmt.Printf("%s: %s\n", name, decision.Reason())
		default:
			fmt.Printf("%s: %s\n", name, decision.Grants[0][0].UUID)
			if err := ledger.Hold(p, decision.Node, decision.Grants); err != nil {
				fmt.Println(err)
			}
		}
	}
	// Output:
	// first: GPU-b
	// second: GPU-a
	// third: 1 nodes 2/2 CardInsufficientMemory(node-1)
}

// Fit looks at devices wherever they are kept: at fills in one at a time.
func ExampleDevices_Fit() {
	devices, err := amd.New(amd.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	registered, err := devices.NodeDevices(node("node-1"))
	if err != nil {
		fmt.Println(err)
		return
	}
	request, err := devices.Request(&pod("train", "1", "8192", "33").Spec.Containers[0])
	if err != nil {
		fmt.Println(err)
		return
	}
	policy := amd.ParsePolicy(map[string]string{"amd.com/use-gpu-uuid": "GPU-a"}, "binpack")
	grants, reasons := devices.Fit(request, policy, len(registered), func(i int, u *amd.Usage) {
		*u = amd.UsageOf(&registered[i])
	})
	fmt.Println(grants, reasons.Refused())

	request.Count = 2
	_, reasons = devices.Fit(request, policy, len(registered), func(i int, u *amd.Usage) {
		*u = amd.UsageOf(&registered[i])
	})
	fmt.Println(reasons)
	// Output:
	// [{GPU-a AMD Instinct MI300X 8192 100}] false
	// 1/2 AllocatedCardsInsufficientRequest, 1/2 CardUuidMismatch
}

// A mistake is refused when the pod is created, with what to write instead.
func ExampleDevices_Admit() {
	devices, err := amd.New(amd.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = devices.Admit(pod("train", "1", "16Gi", ""))
	fmt.Println(err)
	// Output:
	// container "main": amd.com/gpumem: want a whole number of MiB from 0 (all of a GPU) to 2147483647, found "16Gi" (the unit is MiB: for 16Gi write 16384)
}

func ExampleParseConfig() {
	_, err := amd.ParseConfig([]byte("resourceCountName: amd.com/gpu\nresourceMemName: amd.com/gpumem\n"))
	fmt.Println(err)
	// Output:
	// amd config: unknown keys "resourceMemName": want some of resourceCountName, resourceMemoryName, resourceMemoryPercentageName, resourceCoreName, resourcePriorityName, runtimeClassName, defaultCount, defaultMemory, defaultCores, rounding, strictAdmission, disableScore, quotaCores, hookPath
}
