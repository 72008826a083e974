package hami_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/Project-HAMi/HAMi/pkg/device"
	"github.com/Project-HAMi/HAMi/pkg/util/client"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/hami"
	"github.com/Project-HAMi/hami-amd/hami/internal/hamitest"
)

func TestGetNodeDevices(t *testing.T) {
	d := newBackend(t, hami.Config{})
	node := hamitest.Node(t, "node", hamitest.MI300XCPX("GPU-")[:2])
	got, err := d.GetNodeDevices(*node)
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range got {
		info.CustomInfo = nil
	}
	want := []*device.DeviceInfo{
		{ID: "GPU-0-p0", Count: 1, Devmem: 24536, Devcore: 38, Type: "AMD Instinct MI300X", Mode: "cpx", Health: true, DeviceVendor: "AMD"},
		{ID: "GPU-0-p1", Index: 1, Count: 1, Devmem: 24536, Devcore: 38, Type: "AMD Instinct MI300X", Mode: "cpx", Health: true, DeviceVendor: "AMD"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got[0].Health = false // what a caller does with it is its own
	again, err := d.GetNodeDevices(*node)
	if err != nil || !again[0].Health {
		t.Errorf("%+v, %v after a caller wrote to its devices", again[0], err)
	}
}

// HAMi offers an AMD pod only devices whose type has "AMD" in it.
func TestGetNodeDevicesWithAnotherType(t *testing.T) {
	devices := hamitest.MI300X("GPU-")[:1]
	devices[0].Type = "Instinct MI300X"
	got, err := newBackend(t, hami.Config{}).GetNodeDevices(*hamitest.Node(t, "node", devices))
	if err != nil || got[0].Type != "AMD Instinct MI300X" {
		t.Errorf("%+v, %v", got, err)
	}
}

// HAMi forgets a node's devices when there are none and no error, and keeps them
// upon an error.
func TestGetNodeDevicesWithoutDevices(t *testing.T) {
	for name, test := range map[string]struct {
		value string
		err   bool
	}{
		"empty":          {"", false},
		"an empty list":  {"[]", false},
		"null":           {"null", false},
		"a null element": {"[null]", true},
		"an object":      {"{}", true},
		"cut off":        {`[{"id":"a"`, true},
	} {
		t.Run(name, func(t *testing.T) {
			node := hamitest.Node(t, "node", nil)
			node.Annotations[annotations.NodeRegisterKey] = test.value
			got, err := newBackend(t, hami.Config{}).GetNodeDevices(*node)
			if len(got) != 0 || (err != nil) != test.err {
				t.Errorf("%v, %v, want none, error %v", got, err, test.err)
			}
		})
	}
	if got, err := newBackend(t, hami.Config{}).GetNodeDevices(corev1.Node{}); len(got) != 0 || err != nil {
		t.Errorf("%v, %v for a bare node, want none", got, err)
	}
}

func TestNodeCleanUp(t *testing.T) {
	node := hamitest.Node(t, "node", hamitest.MI300X("GPU-"))
	node.Annotations["mine"] = "stays"
	clients := hamitest.SetClient(t, fake.NewClientset(node))
	d := newBackend(t, hami.Config{})
	for range 2 { // a second time there is nothing to take off
		if err := d.NodeCleanUp("node"); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]string{"mine": "stays"}, hamitest.GetNode(t, clients, "node").Annotations); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if err := d.NodeCleanUp("gone"); err != nil {
		t.Errorf("%v for a node that is gone, want nothing left to do", err)
	}
	client.KubeClient = nil
	if err := d.NodeCleanUp("node"); err == nil {
		t.Error("no error without a client")
	}
}
