package amdtest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/Project-HAMi/hami-amd/amd"
	"github.com/Project-HAMi/hami-amd/annotations"
)

// Backend is what is checked.
type Backend interface {
	// Request reads what a container asks for. The resource names are the
	// defaults of amd.Config.
	Request(ctr *corev1.Container) (amd.Request, error)
	// NodeDevices reads the devices a node has registered.
	NodeDevices(node *corev1.Node) ([]annotations.Device, error)
	// Fit picks devices for a request of the pod, the best candidate being the
	// last, or says why not in HAMi's words.
	Fit(usage []amd.Usage, req amd.Request, pod *corev1.Pod) (grants []annotations.Grant, reason string, fits bool)
	// Score ranks the placement of grants on a node whose usage was this before;
	// a higher one is better.
	Score(usage []amd.Usage, grants []annotations.Grant) float32
}

// seeds is how many loads are tried on each machine.
const seeds = 200

// Run checks the backend. Every check is a subtest.
func Run(t *testing.T, b Backend) {
	t.Helper()
	t.Run("an empty container asks for nothing", func(t *testing.T) { emptyContainer(t, b) })
	t.Run("what cannot be granted asks for nothing that can", func(t *testing.T) { invalidRequests(t, b) })
	t.Run("a bare node reports nothing", func(t *testing.T) { bareNode(t, b) })
	t.Run("a broken device list reports nothing", func(t *testing.T) { brokenNode(t, b) })
	for _, name := range Machines() {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(seeds) {
				c := newCase(name, seed)
				if !t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { c.run(t, b) }) {
					t.Logf("machine %q, seed %d: request %+v, annotations %v", name, seed, c.req, c.pod.Annotations)
					return
				}
			}
		})
	}
}

func emptyContainer(t *testing.T, b Backend) {
	for name, ctr := range map[string]corev1.Container{
		"empty":      {},
		"no devices": {Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("1")}}},
		"0 GPUs":     {Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{amd.DefaultCountName: resource.MustParse("0")}}},
		"another vendor": {Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
			"nvidia.com/gpu": resource.MustParse("1"), "nvidia.com/gpumem": resource.MustParse("1"),
		}}},
	} {
		if req, err := b.Request(&ctr); err != nil || req.Count != 0 {
			t.Errorf("%s: %+v, %v, want no GPUs and no error", name, req, err)
		}
	}
}

// invalidRequests may be errors, or requests for nothing where the interface
// has no errors, but never requests for something else.
func invalidRequests(t *testing.T, b Backend) {
	for _, limits := range []map[corev1.ResourceName]string{
		{amd.DefaultCountName: "-1"},
		{amd.DefaultCountName: "1500m"},
		{amd.DefaultCountName: "4294967297"},
		{amd.DefaultCountName: "1", amd.DefaultCoreName: "0"},
		{amd.DefaultCountName: "1", amd.DefaultCoreName: "101"},
		{amd.DefaultCountName: "1", amd.DefaultCoreName: "500m"},
		{amd.DefaultCountName: "1", amd.DefaultCoreName: "4294967346"},
		{amd.DefaultCountName: "1", amd.DefaultMemoryName: "-1"},
		{amd.DefaultCountName: "1", amd.DefaultMemoryName: "1500m"},
		{amd.DefaultCountName: "1", amd.DefaultMemoryName: "2147483648"},
		{amd.DefaultCountName: "1", amd.DefaultMemoryName: "16Gi"},
	} {
		ctr := corev1.Container{Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{}}}
		for name, value := range limits {
			ctr.Resources.Limits[name] = resource.MustParse(value)
		}
		if req, err := b.Request(&ctr); err == nil && req.Count != 0 {
			t.Errorf("%v: %+v, want an error", limits, req)
		}
	}
}

func bareNode(t *testing.T, b Backend) {
	for name, annos := range map[string]map[string]string{
		"no annotations": nil,
		"empty value":    {annotations.NodeRegisterKey: ""},
		"empty list":     {annotations.NodeRegisterKey: "[]"},
		"null":           {annotations.NodeRegisterKey: "null"},
	} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annos}}
		if devices, _ := b.NodeDevices(node); len(devices) > 0 {
			t.Errorf("%s: %d devices, want none", name, len(devices))
		}
	}
}

func brokenNode(t *testing.T, b Backend) {
	for _, value := range []string{"[null]", "{}", `[{"id":"a","devmem":"1"}]`, "a,10,196288,304,T,0,true,0,:", "[", `[{"id":""}]`} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: "broken", Annotations: map[string]string{annotations.NodeRegisterKey: value},
		}}
		if devices, err := b.NodeDevices(node); err == nil || len(devices) > 0 {
			t.Errorf("%s: %d devices, %v, want an error", value, len(devices), err)
		}
	}
}

// run checks one load of a machine.
func (c *testCase) run(t *testing.T, b Backend) {
	before := slices.Clone(c.usage)
	grants, reason, fits := b.Fit(c.usage, c.req, c.pod)
	if diff := cmp.Diff(before, c.usage); diff != "" {
		t.Fatalf("Fit changed the usage it was given (-before +after):\n%s", diff)
	}
	again, reasonAgain, fitsAgain := b.Fit(c.usage, c.req, c.pod)
	if !slices.Equal(grants, again) || reason != reasonAgain || fits != fitsAgain {
		t.Fatalf("the same question was answered differently:\n%v %q\n%v %q", grants, reason, again, reasonAgain)
	}
	if fits {
		c.checkGrants(t, grants)
		c.checkScore(t, b, grants)
	} else {
		c.checkReason(t, reason)
	}
	for range 3 {
		c.rng.Shuffle(len(c.usage), func(i, j int) { c.usage[i], c.usage[j] = c.usage[j], c.usage[i] })
		if _, reason, shuffled := b.Fit(c.usage, c.req, c.pod); shuffled != fits {
			t.Fatalf("fits %v, with the candidates in another order %v (%s)", fits, shuffled, reason)
		}
	}
	c.usage = before
}

// checkGrants applies the grants and looks for anything overcommitted.
func (c *testCase) checkGrants(t *testing.T, grants []annotations.Grant) {
	t.Helper()
	if len(grants) != int(c.req.Count) {
		t.Fatalf("%d devices granted, want %d", len(grants), c.req.Count)
	}
	taken := map[string]bool{}
	for _, g := range grants {
		i := slices.IndexFunc(c.usage, func(u amd.Usage) bool { return u.ID == g.UUID })
		if i < 0 || taken[g.UUID] {
			t.Fatalf("granted %q, want each device of the node once", g.UUID)
		}
		taken[g.UUID] = true
		u := c.usage[i]
		u.Add(g)
		whole := g.MemoryMiB == u.MemoryMiB && g.CUs == u.CUs
		switch {
		case !u.Health || u.Cordoned:
			t.Errorf("granted %+v, which is unhealthy or cordoned", u)
		case u.Used > u.Count || u.UsedMiB > u.MemoryMiB || u.UsedCUs > u.CUs:
			t.Errorf("overcommitted: %+v by %+v", u, g)
		case g.MemoryMiB <= 0 || g.CUs < 0 || g.CUs == 0 && c.req.Cores > 0:
			t.Errorf("granted %+v of %+v", g, u)
		case (whole || u.Hard()) && u.Used > 1:
			t.Errorf("granted whole but shared: %+v by %+v", u, g)
		case u.Hard() && !whole:
			t.Errorf("a part of a partition: %+v of %+v", g, u)
		case g.CUs > 0 && u.Geometry().RoundUp(int(g.CUs)) != int(g.CUs):
			t.Errorf("%d CUs, which the GPU cannot take: %+v", g.CUs, u.Geometry())
		case g.Type == "":
			t.Errorf("no type, which could not be read back: %+v", g)
		}
	}
	if _, err := annotations.EncodePod(annotations.PodGrants{grants}); err != nil {
		t.Error(err)
	}
}

func (c *testCase) checkScore(t *testing.T, b Backend, grants []annotations.Grant) {
	t.Helper()
	score := float64(b.Score(c.usage, grants))
	if math.IsNaN(score) || math.IsInf(score, 0) {
		t.Errorf("score %v, want a finite number", score)
	}
	if again := float64(b.Score(c.usage, grants)); again != score {
		t.Errorf("score %v, then %v", score, again)
	}
}

// checkReason reads the reason as HAMi does for its events.
func (c *testCase) checkReason(t *testing.T, reason string) {
	t.Helper()
	counts, err := ParseReason(reason)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.IsSorted(slices.Collect(items(reason))) {
		t.Errorf("reason %q: want it sorted", reason)
	}
	for word, count := range counts {
		if count.Cards != len(c.usage) || count.Devices > count.Cards {
			t.Errorf("reason %q: %s: want at most %d of %d", reason, word, len(c.usage), len(c.usage))
		}
	}
}

// testCase is one load of a machine and one request.
type testCase struct {
	rng   *rand.Rand
	usage []amd.Usage
	req   amd.Request
	pod   *corev1.Pod
}
