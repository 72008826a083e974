package main

import (
	"strings"
	"testing"
)

// A node whose GPUs cannot be used is no node on which nothing is wrong.
func TestUnhealthyGPUsAreNamed(t *testing.T) {
	cluster := file(t, "cluster.yaml", strings.ReplaceAll(clean(t), `"health":true`, `"health":false`))
	if r := amdctl(t, "", "verify", "--cluster", cluster); !strings.Contains(r.stdout, "DeviceUnhealthy: the node registers it as unhealthy") {
		t.Errorf("verify says\n%s", r.stdout)
	}
	r := ok(t, "", "draw", "--cluster", cluster, "--problems", "--node", "radeon-1")
	for _, want := range []string{"! DeviceUnhealthy", "warning DeviceUnhealthy", "amdctl discover on radeon-1 says why"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("draw --problems does not say %q:\n%s", want, r.stdout)
		}
	}
}

const slip = `{"kind":"Pod","metadata":{"name":"slip","namespace":"team"},"spec":{"containers":[
	{"name":"main","resources":{"limits":{"amd.com/gpu":1,"amd.com/gpumen":1000}}}]}}`

// A slip in a resource's name keeps a pod waiting for ever, so nothing says that
// it fits.
func TestSlipInAResourceName(t *testing.T) {
	const says = `asks for "amd.com/gpumen", which no node offers and HAMi does not know`
	cluster := file(t, "cluster.yaml", clean(t)+"---\n"+slip)
	r := ok(t, "", "explain", "team/slip", "--cluster", cluster)
	if words := oneLine(r.stdout); !strings.Contains(words, "pending: it asks for") || !strings.Contains(words, says) ||
		strings.Contains(words, "there are GPUs") || strings.Contains(words, "smaller request") {
		t.Errorf("explain says\n%s", r.stdout)
	}
	if r := ok(t, "", "verify", "--cluster", cluster); !strings.Contains(oneLine(r.stdout), "RequestUnknown: it "+says) {
		t.Errorf("verify says\n%s", r.stdout)
	}
	if r := ok(t, slip, "fit", "--cluster", cluster, "--pod", "-"); !strings.Contains(r.stderr, says) {
		t.Errorf("fit says\n%s", r.stderr)
	}
}
