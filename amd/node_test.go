package amd

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/Project-HAMi/hami-amd/annotations"
)

func TestNodeDevices(t *testing.T) {
	node := func(value string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: "node", Annotations: map[string]string{annotations.NodeRegisterKey: value},
		}}
	}
	for name, test := range map[string]struct {
		node    *corev1.Node
		devices int
		err     bool
	}{
		"no annotations":     {&corev1.Node{}, 0, false},
		"empty":              {node(""), 0, false},
		"an empty list":      {node("[]"), 0, false},
		"null":               {node("null"), 0, false},
		"taken off by HAMi":  {node("Deleted_2026-05-01 10:00:00"), 0, false},
		"a null element":     {node("[null]"), 0, true},
		"an object":          {node("{}"), 0, true},
		"cut off":            {node(`[{"id":"a"`), 0, true},
		"the older format":   {node("a,10,196288,304,T,0,true,0,:"), 0, true},
		"one of two is null": {node(`[{"id":"a"},null]`), 0, true},
		"two devices":        {node(`[{"id":"a","devmem":1,"type":"AMD X"},{"id":"b"}]`), 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDevices(t, Config{})
			for range 2 { // the second answer is the remembered one
				devices, err := d.NodeDevices(test.node)
				if len(devices) != test.devices || (err != nil) != test.err {
					t.Errorf("%v, %v, want %d devices, error %v", devices, err, test.devices, test.err)
				}
				if err != nil && (!errors.Is(err, annotations.ErrNotDeviceList) || !strings.Contains(err.Error(), `node "node"`)) {
					t.Errorf("%v: want the node named", err)
				}
			}
		})
	}
}

func TestNodeDevicesRemembers(t *testing.T) {
	d := newDevices(t, Config{})
	node := newNode(t, "node", mi300x("g"))
	first, err := d.NodeDevices(node)
	if err != nil {
		t.Fatal(err)
	}
	second, _ := d.NodeDevices(node.DeepCopy())
	if &first[0] != &second[0] {
		t.Error("the same value was decoded twice")
	}
	other := newNode(t, "node", mi300x("h"))
	if changed, _ := d.NodeDevices(other); changed[0].ID != "h0" {
		t.Errorf("%q after the value changed, want h0", changed[0].ID)
	}
	d.ForgetNode("node")
	if _, ok := d.nodes.get("node"); ok {
		t.Error("a forgotten node is remembered")
	}
}

// Nodes come and go, and HAMi does not say which are gone.
func TestNodeDevicesForgetsWhatNobodyAsksAbout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDevices(t, Config{})
		stays := newNode(t, "stays", mi300x("g"))
		first, err := d.NodeDevices(stays)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 1000 { // 4 hours of one more node each 15 s
			if _, err := d.NodeDevices(newNode(t, fmt.Sprint("gone-", i), mi300x("g"))); err != nil {
				t.Fatal(err)
			}
			if again, _ := d.NodeDevices(stays); &again[0] != &first[0] {
				t.Fatalf("round %d: a node that is asked about was decoded again", i)
			}
			if n, most := len(d.nodes.nodes)+len(d.nodes.older), int(2*nodeMemory/(15*time.Second))+2; n > most {
				t.Fatalf("round %d: %d nodes remembered, want at most %d", i, n, most)
			}
			time.Sleep(15 * time.Second)
		}
	})
}

func TestNodeDevicesConcurrently(t *testing.T) {
	d := newDevices(t, Config{})
	nodes := []*corev1.Node{newNode(t, "a", mi300x("a")), newNode(t, "a", mi300x("b")), newNode(t, "b", nil)}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 50 {
				devices, err := d.NodeDevices(nodes[(i+j)%len(nodes)])
				if err != nil || len(devices) > 0 && devices[0].Devmem != 196288 {
					t.Error(devices, err)
				}
			}
		})
	}
	wg.Wait()
}

func TestHealthy(t *testing.T) {
	d := newDevices(t, Config{})
	for name, test := range map[string]struct {
		resources corev1.ResourceList
		want      bool
	}{
		"none":    {nil, false},
		"others":  {corev1.ResourceList{"cpu": resource.MustParse("8")}, false},
		"0":       {corev1.ResourceList{"amd.com/gpu": resource.MustParse("0")}, false},
		"80":      {corev1.ResourceList{"amd.com/gpu": resource.MustParse("80")}, true},
		"an exa":  {corev1.ResourceList{"amd.com/gpu": resource.MustParse("10E")}, true},
		"another": {corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")}, false},
	} {
		if got := d.Healthy(test.resources); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}
