package dmem_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/Project-HAMi/hami-amd/dmem"
	"github.com/Project-HAMi/hami-amd/dmem/dmemtest"
)

// A pod holds 16 GiB of a GPU; its cgroup appears while we wait for it.
func ExampleTree_CapPod() {
	dir, err := os.MkdirTemp("", "dmem")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	// On a node: tree, err := dmem.Open("/sys/fs/cgroup").
	kernel, err := dmemtest.New(dir, dmemtest.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	region, err := dmem.VRAMRegion("0000:06:00.0")
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = kernel.AddRegion(region, 206141652992)
	_ = kernel.Mkdir("kubepods.slice/kubepods-pod6a9c1f0e.slice")

	tree := dmem.New(kernel)
	if err := tree.Prepare(); err != nil {
		fmt.Println("no dmem on this node:", err)
		return
	}
	caps, err := dmem.PeakCaps([]dmem.Holder{
		{Kind: dmem.App, Grants: []dmem.Grant{{Region: region, Bytes: 16384 << 20}}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	pod := dmem.Pod{UID: "6a9c1f0e", QoS: dmem.Guaranteed}
	if err := tree.CapPod(ctx, dmem.PodCaps{Pod: pod, Caps: caps}); err != nil {
		fmt.Println(err)
		return
	}
	cgroup, err := tree.FindPod(pod)
	if err != nil {
		fmt.Println(err)
		return
	}
	usage, err := tree.Usage(cgroup)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, u := range usage {
		fmt.Printf("%s: %d of %s\n", u.Region, u.Current, u.Max)
	}
	// Output:
	// drm/0000:06:00.0/vram: 0 of 17179869184
}
