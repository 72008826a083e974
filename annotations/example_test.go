package annotations_test

import (
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/cumask"
)

func ExampleEncodeDevices() {
	value, err := annotations.EncodeDevices([]annotations.Device{{
		ID:      "8eff74b5-0000-1000-801b-b56457addd1b",
		Count:   10,
		Devmem:  196288,
		Devcore: 304,
		Type:    annotations.SanitizeType("Instinct MI300X"),
		Health:  true,
		CustomInfo: annotations.CustomInfo{
			PCIBDF: "0000:83:00.0",
			NumXCC: 8,
		},
	}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(value)
	// Output:
	// [{"id":"8eff74b5-0000-1000-801b-b56457addd1b","count":10,"devmem":196288,"devcore":304,"type":"AMD Instinct MI300X","health":true,"custominfo":{"numXCC":8,"pciBDF":"0000:83:00.0"}}]
}

func ExampleDecodeDevices() {
	devices, err := annotations.DecodeDevices(`[{"id":"A","count":10,"devmem":16304,"devcore":32,"type":"AMD Radeon RX 9060 XT","health":true,"custominfo":{"cuPerWGP":2}}]`)
	if err != nil {
		log.Fatal(err)
	}
	for _, d := range devices {
		fmt.Printf("%s: %s, %d MiB, %d CUs in steps of %d\n", d.ID, d.Type, d.Devmem, d.Devcore, d.Geometry().Unit())
	}
	// Output:
	// A: AMD Radeon RX 9060 XT, 16304 MiB, 32 CUs in steps of 2
}

// A node that says nothing new is not a node without devices.
func ExampleDecodeDevices_errors() {
	for _, value := range []string{"Deleted_2026-05-01 10:00:00", "A,10,196288,304,T,0,true,0,:", `[{"id":"A","devmem":"196288"}]`} {
		devices, err := annotations.DecodeDevices(value)
		if errors.Is(err, annotations.ErrNotDeviceList) {
			fmt.Println("keep what was known:", err)
			continue
		}
		fmt.Println("devices:", len(devices))
	}
	// Output:
	// devices: 0
	// keep what was known: decode hami.io/node-amd-register: not a JSON device list: byte 0: want a list, found "A,10,196288,304,T,0,true,0,:"
	// keep what was known: decode hami.io/node-amd-register: not a JSON device list: device 0: devmem: want a number, found the string "196288"
}

func ExampleEncodePod() {
	value, err := annotations.EncodePod(annotations.PodGrants{
		{}, // an init container without a GPU
		{{UUID: "GPU-a", Type: "AMD Instinct MI300X", MemoryMiB: 16384, CUs: 76}},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(value)
	// Output:
	// ;GPU-a,AMD Instinct MI300X,16384,76:;
}

// The plugin serves one container for each call of the kubelet.
func ExamplePodGrants_Serve() {
	pod, err := annotations.DecodePod("A,AMD Instinct MI300X,16384,76:;;B,AMD Instinct MI300X,8192,38:;")
	if err != nil {
		log.Fatal(err)
	}
	for !pod.Served() {
		i, grants, _ := pod.Next()
		pod = pod.Serve(i)
		left, err := annotations.EncodePod(pod)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("container %d gets %d CUs of %s, left: %s\n", i, grants[0].CUs, grants[0].UUID, left)
	}
	// Output:
	// container 0 gets 76 CUs of A, left: ;;B,AMD Instinct MI300X,8192,38:;
	// container 2 gets 38 CUs of B, left: ;;;
}

// HAMi v2.10 leaves out the entries of containers without GPUs: the only grant
// belongs to the second container.
func ExamplePodGrants_Align() {
	pod, err := annotations.DecodePod("A,AMD Instinct MI300X,16384,76:;")
	if err != nil {
		log.Fatal(err)
	}
	aligned, err := pod.Align([]bool{false, true})
	if err != nil {
		log.Fatal(err)
	}
	for i, grants := range aligned {
		fmt.Println("container", i, "has", len(grants), "GPUs")
	}
	// Output:
	// container 0 has 0 GPUs
	// container 1 has 1 GPUs
}

func ExampleRangeCUs() {
	gpu := cumask.NewOccupancy(cumask.Geometry{CUs: 304, XCCs: 8})
	for pod, value := range map[string]string{"default/train": `{"A":"0-75"}`, "default/eval": `{"A":"76-113"}`} {
		err := annotations.RangeCUs(value, func(device string, cus cumask.Set) error {
			return gpu.Add(pod, cus)
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println("in use:", gpu.Used())
	// Output:
	// in use: 0-113
}

func ExampleEncodeContainerCUs() {
	value, err := annotations.EncodeContainerCUs(map[string]annotations.ContainerCUs{
		"train": {IDs: []string{"0000:05:00.0#3"}, CUs: map[string]cumask.Set{"A": cumask.Range(0, 75)}},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(value)
	// Output:
	// {"train":{"ids":["0000:05:00.0#3"],"cus":{"A":"0-75"}}}
}

func ExampleDecideLock() {
	now := time.Date(2026, 8, 21, 8, 30, 0, 0, time.UTC)
	decision, err := annotations.DecideLock(annotations.LockQuery{
		Locked: true, Value: "2026-08-21T08:20:39Z,default,train-0",
		Owner:     annotations.OwnerStateOf("Pending", map[string]string{annotations.ToAllocateKey: "A,AMD Instinct MI300X,16384,76:;"}),
		Namespace: "default", Name: "eval-0",
		Now: now,
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%v: %s\n", decision.Verdict, decision.Reason)
	// Output:
	// held: its owner default/train-0 waits for its devices
}

func ExampleSanitizeType() {
	for _, product := range []string{"AMD Instinct MI300X", "Radeon RX 9060 XT", "Radeon RX 7600, 7700S"} {
		fmt.Println(annotations.SanitizeType(product))
	}
	// Output:
	// AMD Instinct MI300X
	// AMD Radeon RX 9060 XT
	// AMD Radeon RX 7600 7700S
}
