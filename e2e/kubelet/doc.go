// Package kubelet is the part of a kubelet that a device plugin meets, run
// inside the test process: the real device manager, topology manager and
// admission checks of k8s.io/kubernetes behind a small driver that does what
// kubelet's main loop does around them.
//
//	k, err := kubelet.Start(ctx, client, kubelet.Options{NodeName: "gpu-node"})
//	...
//	err = k.WaitCapacity(ctx, "amd.com/gpu", 8) // the plugin has registered
//	err = k.Admit(ctx, pod)                     // pod is bound to the node
//	containers, err := k.Run(ctx, pod)          // what each container gets
//
// Real are: registration, ListAndWatch, the choice of device IDs with
// GetPreferredAllocation, Allocate, PreStartContainer, the checkpoint file, the
// node's capacity, the order of containers, and the verdict on a pod with its
// reason and message. Not there are: a container runtime, cgroups, image pulls,
// probes and a watch on pods. The test hands pods over instead.
//
// The device manager's folder is fixed at /var/lib/kubelet/device-plugins, so
// one process can have one Kubelet at a time, and tests run in a mount namespace
// of their own: see [InNamespace]. Programs the test starts, such as the plugin's
// binary, are in it too and need no other paths than on a real node.
package kubelet
