package hami_test

import (
	"fmt"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/HAMi/pkg/device"

	"github.com/Project-HAMi/hami-amd/hami"
	"github.com/Project-HAMi/hami-amd/hami/internal/hamitest"
)

func TestMain(m *testing.M) {
	if err := hamitest.Silence(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func newBackend(tb testing.TB, config hami.Config) device.Devices {
	tb.Helper()
	d, err := hami.New(config)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

// request is what HAMi asks of Fit for a container.
func request(tb testing.TB, d device.Devices, c corev1.Container) device.ContainerDeviceRequest {
	tb.Helper()
	r, err := generate(d, &c)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}
