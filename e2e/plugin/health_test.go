package plugin

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/e2e/node"
)

// A GPU whose device node is gone gets no new pods until it is back; kubelet,
// the scheduler and whoever reads events are told. What runs is left alone.
func TestHealthOfTheDeviceNode(t *testing.T) {
	n := lab.Start(t, node.Options{Flags: []string{"-pulse=1"}})
	s := n.MustPlace(n.Pod("running", node.Slice("app", 1, 25, 16384)))
	render := filepath.Join(n.Dev(), "dri", filepath.Base(lastRender))
	if err := os.Remove(render); err != nil {
		t.Fatal(err)
	}
	n.WaitDevices("amd.com/gpu", 70)
	waitEvent(n, "default", n.Name, "AMDGPUUnhealthy", lastBDF, "renderD184")
	n.Eventually("the scheduler is told", func() error { return healthIs(n, lastGPU, false) })
	after := n.MustPlace(n.Pod("after", node.Slice("app", 1, 25, 16384)))
	if got := after.Containers["app"].Env["ROCR_VISIBLE_DEVICES"]; got == lastROCr {
		t.Error("a pod was placed on an unhealthy GPU")
	}
	if _, err := n.Place(n.Pod("all", node.Slice("app", 8, 10, 1024))); err == nil {
		t.Error("a pod was placed on all GPUs")
	}
	n.Check()
	if n.Read(s.Pod).Status.Phase != corev1.PodRunning || n.IDs(s, "app") == nil {
		t.Error("the pod on the GPU that got unhealthy does not run on")
	}
	n.Write(render, "")
	n.WaitDevices("amd.com/gpu", 80)
	n.Eventually("the scheduler is told", func() error { return healthIs(n, lastGPU, true) })
	n.CheckPlaced(n.Place(n.Pod("again", node.Slice("app", 8, 10, 1024))))
}

// A GPU falls ill after a pod was bound to it. Kubelet takes the IDs of others,
// and the pod is refused all the same, to be placed elsewhere.
func TestHealthChangesAfterTheBinding(t *testing.T) {
	n := lab.Start(t, node.Options{Flags: []string{"-pulse=1"}})
	bound := n.Bind(n.Pod("pod", node.Slice("app", 1, 25, 16384)))
	if err := os.Remove(filepath.Join(n.Dev(), "dri", filepath.Base(lastRender))); err != nil {
		t.Fatal(err)
	}
	n.WaitDevices("amd.com/gpu", 70)
	n.Eventually("the scheduler is told", func() error { return healthIs(n, lastGPU, false) })
	s, err := n.Admit(bound)
	if err == nil || !strings.Contains(err.Error(), "renderD184") {
		t.Errorf("admit: %v, want a rejection that says what the GPU has", err)
	}
	n.CheckPlaced(s, err)
}

func healthIs(n *node.Node, id string, want bool) error {
	n.Helper()
	if d, there := registered(n)[id]; !there || d.Health != want {
		return errNotYet
	}
	return nil
}

// raw passes bytes on as they are.
type raw struct{}

func (raw) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}
func (raw) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}
func (raw) Name() string { return "proto" }

var _ encoding.CodecV2 = raw{}

// serveVerdicts is an exporter that says these words of these GPUs: messages
// GPUState and GPUStateResponse of its gpumetricssvc.proto.
func serveVerdicts(n *node.Node, verdicts map[string]string) {
	n.Helper()
	var reply []byte
	for bdf, health := range verdicts {
		var state []byte
		state = protowire.AppendString(protowire.AppendTag(state, 3, protowire.BytesType), health)
		state = protowire.AppendString(protowire.AppendTag(state, 5, protowire.BytesType), bdf)
		reply = protowire.AppendBytes(protowire.AppendTag(reply, 1, protowire.BytesType), state)
	}
	server := grpc.NewServer(grpc.ForceServerCodecV2(raw{}), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		var request []byte
		if err := stream.RecvMsg(&request); err != nil {
			return err
		}
		return stream.SendMsg(reply)
	}))
	listener, err := net.Listen("unix", n.Exporter())
	if err != nil {
		n.Fatal(err)
	}
	go server.Serve(listener)
	n.Cleanup(server.Stop)
}

func TestHealthFromTheExporter(t *testing.T) {
	n := lab.Start(t, node.Options{Flags: []string{"-pulse=1"}})
	serveVerdicts(n, map[string]string{lastBDF: "unhealthy", "0000:05:00.0": "healthy"})
	n.WaitDevices("amd.com/gpu", 70)
	waitEvent(n, "default", n.Name, "AMDGPUUnhealthy", lastBDF, "exporter")
}

// A partition has its own render node: the others of its GPU stay.
func TestHealthOfAPartition(t *testing.T) {
	o := partitionMode("mi300x-cpx-8", 64)
	o.Flags = []string{"-pulse=1"}
	n := lab.Start(t, o)
	if err := os.Remove(filepath.Join(n.Dev(), "dri", "renderD131")); err != nil {
		t.Fatal(err)
	}
	n.WaitDevices("amd.com/gpu", 63)
	waitEvent(n, "default", n.Name, "AMDGPUUnhealthy", "partition 3")
}

// A GPU that was there before a reboot and did not come back.
func TestMissingGPU(t *testing.T) {
	text, err := annotations.EncodeDevices([]annotations.Device{{
		ID: "00ff74a1-0000-1000-8000-000000000001", Count: 10, Devmem: 196592, Devcore: 304, Type: "AMD Instinct MI300X",
		CustomInfo: annotations.CustomInfo{PCIBDF: "0000:f7:00.0"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	n := lab.Start(t, node.Options{Annotations: map[string]string{annotations.NodeRegisterKey: text}})
	waitEvent(n, "default", n.Name, "AMDGPUMissing", "0000:f7:00.0")
	waitRegistered(n, 8)
}

// The node's mode is switched while a pod runs, against the instructions.
func TestModeChangedInUse(t *testing.T) {
	n := lab.Start(t, node.Options{})
	n.MustPlace(n.Pod("running", node.Slice("app", 1, 25, 16384)))
	partition := "partition"
	n.Annotate(map[string]*string{annotations.OperatingModeKey: &partition})
	n.StopPlugin()
	n.StartPlugin()
	n.WaitDevices("amd.com/gpu", 8)
	waitEvent(n, "default", n.Name, "AMDGPUModeChangedInUse", n.Namespace+"/running")
	if d := registered(n)[lastGPU]; d.Mode != "spx" || d.Count != 1 {
		t.Errorf("the GPU is registered as %+v, want one hard device of the same ID", d)
	}
}
