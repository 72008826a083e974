package inspect_test

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/Project-HAMi/hami-amd/amd"
	"github.com/Project-HAMi/hami-amd/inspect"
)

const node = `
metadata:
  name: n1
  annotations:
    hami.io/node-amd-register: '[{"id":"A","count":4,"devmem":196592,"devcore":304,"type":"AMD Instinct MI300X","health":true,"custominfo":{"numXCC":8}}]'
`

const train = `
metadata:
  namespace: team
  name: train
  labels: {hami.io/vgpu-node: n1}
  annotations:
    hami.io/vgpu-node: n1
    hami.io/amd-devices-allocated: "A,AMD Instinct MI300X,98304,152:;"
    hami.io/amd-devices-to-allocate: ";"
    hami.io/amd-cu-allocated: '{"A":"0-303"}'
spec:
  nodeName: n1
  containers:
  - name: main
    resources: {limits: {amd.com/gpu: 1, amd.com/gpumem: 98304, amd.com/gpucores: 50}}
status: {phase: Running}
`

const serve = `
metadata: {namespace: team, name: serve}
spec:
  containers:
  - name: main
    resources: {limits: {amd.com/gpu: 1, amd.com/gpumem: 131072, amd.com/gpucores: 50}}
`

func cluster() *inspect.Cluster {
	var n corev1.Node
	var a, b corev1.Pod
	for text, into := range map[string]any{node: &n, train: &a, serve: &b} {
		if err := yaml.Unmarshal([]byte(text), into); err != nil {
			panic(err)
		}
	}
	now := time.Date(2026, 8, 21, 12, 0, 0, 0, time.UTC)
	return inspect.New([]*corev1.Node{&n}, []*corev1.Pod{&a, &b}, inspect.Options{Now: now})
}

// Somebody has given the pod all CUs of the GPU.
func ExampleNew() {
	for p := range cluster().All() {
		fmt.Println(p)
	}
	// Output:
	// error MaskSizeDiffers: pod team/train, container main, node n1, gpu A: 304 CUs are in its mask (0-303), 152 are granted
}

func ExampleCluster_Explain() {
	e, err := cluster().Explain("team", "serve", amd.ScheduleOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(e.Reason)
	for _, n := range e.Nodes {
		for _, g := range n.GPUs {
			fmt.Println(n.Node, g.GPU, g.Reason, "-", g.Why)
		}
	}
	for _, change := range e.Smaller {
		fmt.Println("would fit:", change.Text)
	}
	// Output:
	// it fits on no node; it will once other pods end
	// n1 A CardInsufficientMemory - 131072 MiB are wanted, 98288 of 196592 are free
	// would fit: container "main": amd.com/gpumem: 98288, the rest as it is
}
