// Package plugin is the kubelet device plugin for AMD GPUs that HAMi shares: the
// daemon of a node, as a library.
//
//	cfg, err := plugin.ParseArgs(os.Args[1:], os.Getenv) // or fill in a Config
//	p, err := plugin.New(cfg, plugin.Deps{Client: client, Log: klog.Background()})
//	err = p.Run(ctx) // until ctx ends
//
// It has two sides. Towards kubelet it is a device plugin (API v1beta1): one
// gRPC server for each extended resource on a socket in kubelet's
// device-plugins folder, registered again whenever kubelet was restarted or
// ended the stream of devices; a list of devices that follows their health; and
// advice on which of them to take. Towards the API server it answers Allocate
// from what HAMi's scheduler granted, and publishes what the node has.
//
// Kubelet sees device IDs, not pods: "<bdf>#<slot>" for a share of a GPU,
// "<bdf>" for a GPU that is held whole, "<bdf>-p<k>" for a compute partition.
// Which GPU a container gets is decided by the grants of the pod that holds the
// node lock (package annotations), whatever IDs kubelet picked.
//
// What it touches on the host: its sockets, the CDI spec amd.com-gpu.json, the
// compute partition mode of idle GPUs at start, the cgroups of the pods it
// serves (package dmem), and vgpu/ below the hook path. On the node object: the
// annotation hami.io/node-amd-register, the release of hami.io/mutex.lock, and
// the capacities amd.com/gpumem and amd.com/gpucores. On pods: the annotations
// of package annotations that say what was allocated.
//
// Everything a user can set is in Settings, which the flags and the help text
// come from. Log level 4 adds what was read of the topology and which devices
// kubelet was told of, level 5 the annotations as they are decoded.
package plugin
