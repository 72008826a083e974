package amd

import (
	"errors"
	"math"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// resources builds a resource list from "name=quantity" words; names are short.
func resources(t testing.TB, words string) corev1.ResourceList {
	t.Helper()
	list := corev1.ResourceList{}
	for word := range strings.FieldsSeq(words) {
		name, value, _ := strings.Cut(word, "=")
		q, err := resource.ParseQuantity(value)
		if err != nil {
			t.Fatalf("%s: %v", word, err)
		}
		list[corev1.ResourceName("amd.com/"+name)] = q
	}
	return list
}

func limited(t testing.TB, limits string) *corev1.Container {
	return &corev1.Container{Name: "main", Resources: corev1.ResourceRequirements{Limits: resources(t, limits)}}
}

func TestRequest(t *testing.T) {
	memoryOnly := int32(0)
	for name, test := range map[string]struct {
		config           Config
		limits, requests string
		want             Request
	}{
		"nothing":                            {want: Request{}},
		"0 GPUs":                             {limits: "gpu=0", want: Request{}},
		"a priority alone":                   {limits: "priority=0", want: Request{}},
		"a percentage of 0 alone":            {limits: "gpumem-percentage=0", want: Request{}},
		"whole":                              {limits: "gpu=2", want: Request{Count: 2, Cores: 100}},
		"0 MiB is whole":                     {limits: "gpu=1 gpumem=0", want: Request{Count: 1, Cores: 100}},
		"a slice":                            {limits: "gpu=1 gpumem=8192 gpucores=25", want: Request{Count: 1, MemoryMiB: 8192, Cores: 25}},
		"memory takes all cores":             {limits: "gpu=1 gpumem=8192", want: Request{Count: 1, MemoryMiB: 8192, Cores: 100}},
		"memory alone":                       {config: Config{DefaultCores: &memoryOnly}, limits: "gpu=1 gpumem=8192", want: Request{Count: 1, MemoryMiB: 8192}},
		"a percentage alone":                 {config: Config{DefaultCores: &memoryOnly}, limits: "gpu=1 gpumem-percentage=50", want: Request{Count: 1, MemoryPercent: 50}},
		"whole whatever the default":         {config: Config{DefaultCores: &memoryOnly}, limits: "gpu=1", want: Request{Count: 1, Cores: 100}},
		"0 MiB is whole whatever":            {config: Config{DefaultCores: &memoryOnly}, limits: "gpu=1 gpumem=0", want: Request{Count: 1, Cores: 100}},
		"cores take all memory":              {limits: "gpu=1 gpucores=25", want: Request{Count: 1, Cores: 25}},
		"cores take the default memory":      {config: Config{DefaultMemory: 512}, limits: "gpu=1 gpucores=25", want: Request{Count: 1, MemoryMiB: 512, Cores: 25}},
		"0 MiB is no default memory":         {config: Config{DefaultMemory: 512}, limits: "gpu=1 gpumem=0 gpucores=25", want: Request{Count: 1, Cores: 25}},
		"a figure wins over a percentage":    {limits: "gpu=1 gpumem=1 gpumem-percentage=50", want: Request{Count: 1, MemoryMiB: 1, Cores: 100}},
		"0 MiB leaves the percentage":        {limits: "gpu=1 gpumem=0 gpumem-percentage=50", want: Request{Count: 1, MemoryPercent: 50, Cores: 100}},
		"requests where there are no limits": {requests: "gpu=1 gpumem=8192 gpucores=25", want: Request{Count: 1, MemoryMiB: 8192, Cores: 25}},
		"limits before requests":             {limits: "gpu=1 gpucores=50", requests: "gpu=2 gpumem=1 gpucores=25", want: Request{Count: 1, MemoryMiB: 1, Cores: 50}},
		"decimal suffixes":                   {limits: "gpu=1 gpumem=16k gpucores=25", want: Request{Count: 1, MemoryMiB: 16000, Cores: 25}},
		"small binary suffixes":              {limits: "gpu=1 gpumem=16Ki gpucores=25", want: Request{Count: 1, MemoryMiB: 16384, Cores: 25}},
		"thousandths that are whole":         {limits: "gpu=1000m gpumem=1e3 gpucores=25000m", want: Request{Count: 1, MemoryMiB: 1000, Cores: 25}},
		"the largest":                        {limits: "gpu=2147483647 gpumem=2147483647 gpucores=100", want: Request{Count: math.MaxInt32, MemoryMiB: math.MaxInt32, Cores: 100}},
	} {
		t.Run(name, func(t *testing.T) {
			ctr := &corev1.Container{Name: "main"}
			if test.limits != "" {
				ctr.Resources.Limits = resources(t, test.limits)
			}
			if test.requests != "" {
				ctr.Resources.Requests = resources(t, test.requests)
			}
			got, err := newDevices(t, test.config).Request(ctr)
			if err != nil || got != test.want {
				t.Errorf("%+v, %v, want %+v", got, err, test.want)
			}
		})
	}
}

func TestRequestRefuses(t *testing.T) {
	for name, test := range map[string]struct{ limits, resource, want string }{
		"a negative count":        {"gpu=-1", "amd.com/gpu", `found "-1"`},
		"half a GPU":              {"gpu=500m", "amd.com/gpu", `found "500m"`},
		"a count beyond int32":    {"gpu=2147483648", "amd.com/gpu", "2147483647"},
		"a count beyond int64":    {"gpu=1e19", "amd.com/gpu", "found"},
		"a count that would wrap": {"gpu=4294967297", "amd.com/gpu", "found"},
		"a percentage above 100":  {"gpu=1 gpumem-percentage=101", "amd.com/gpumem-percentage", "integer 0–100"},
		"a negative percentage":   {"gpu=1 gpumem-percentage=-1", "amd.com/gpumem-percentage", "integer 0–100"},
		"half a percent":          {"gpu=1 gpumem-percentage=1500m", "amd.com/gpumem-percentage", "integer 0–100"},
		"memory of no GPU":        {"gpu=0 gpumem=1", "amd.com/gpu", "at least 1 GPU"},
		"cores of no GPU":         {"gpu=0 gpucores=1", "amd.com/gpu", "at least 1 GPU"},
		"memory without a count":  {"gpumem=8192", "amd.com/gpu", "want a number of GPUs"},
		"cores without a count":   {"gpucores=25", "amd.com/gpu", "want a number of GPUs"},
		"a percentage, no count":  {"gpumem-percentage=25", "amd.com/gpu", "want a number of GPUs"},
		"a quantity without end":  {"gpu=1 gpumem=" + strings.Repeat("9", 400), "amd.com/gpumem", "found \"a number beyond"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := newDevices(t, Config{}).Request(limited(t, test.limits))
			var invalid *InvalidRequestError
			if !errors.As(err, &invalid) || got != (Request{}) {
				t.Fatalf("%+v, %v, want an invalid request", got, err)
			}
			if invalid.Container != "main" || invalid.Resource != test.resource || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%q about %q, want %q about %q", err, invalid.Resource, test.want, test.resource)
			}
			if len(err.Error()) > 300 {
				t.Errorf("%d bytes of message", len(err.Error()))
			}
		})
	}
}

// Every verdict holds at admission and, where the webhook was bypassed, in the
// request, for app and init containers, with and without a number of GPUs.
func checkRefused(t *testing.T, limits, want string) {
	t.Helper()
	d := newDevices(t, Config{})
	for _, count := range []string{"gpu=1 ", ""} {
		ctr := limited(t, count+limits)
		if got, err := d.Request(ctr); err == nil || got != (Request{}) || !strings.Contains(err.Error(), want) {
			t.Errorf("request of %s%s: %+v, %v, want %q", count, limits, got, err, want)
		}
		for name, pod := range map[string]*corev1.Pod{
			"app":  {Spec: corev1.PodSpec{Containers: []corev1.Container{*ctr}}},
			"init": {Spec: corev1.PodSpec{InitContainers: []corev1.Container{*ctr}, Containers: []corev1.Container{{}}}},
		} {
			if _, err := d.Admit(pod); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("admission of %s%s, %s container: %v, want %q", count, limits, name, err, want)
			}
		}
	}
}

func TestC11CoresOutOfRange(t *testing.T) {
	for _, cores := range []string{"0", "101", "-5", "500m", "4294967346"} {
		t.Run(cores, func(t *testing.T) { checkRefused(t, "gpucores="+cores, "integer 1–100") })
	}
	for _, cores := range []int32{1, 100} {
		d := newDevices(t, Config{})
		ctr := limited(t, "gpu=1")
		ctr.Resources.Limits["amd.com/gpucores"] = *resource.NewQuantity(int64(cores), resource.DecimalSI)
		if got, err := d.Request(ctr); err != nil || got.Cores != cores {
			t.Errorf("%d: %+v, %v", cores, got, err)
		}
		if _, err := d.Admit(&corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{*ctr}}}); err != nil {
			t.Errorf("%d: %v", cores, err)
		}
	}
	if got, err := newDevices(t, Config{}).Request(limited(t, "gpu=1")); err != nil || got.Cores != 100 {
		t.Errorf("absent: %+v, %v, want 100", got, err)
	}
}

func TestC12MemoryOverflowAndZero(t *testing.T) {
	for _, mem := range []string{"2147483648", "16Gi", "17179869184", "-1", "1500m"} {
		t.Run(mem, func(t *testing.T) { checkRefused(t, "gpumem="+mem, "MiB") })
	}
	for _, mem := range []string{"gpumem=0", ""} {
		t.Run("whole card: "+mem, func(t *testing.T) {
			d := newDevices(t, Config{})
			req, err := d.Request(limited(t, "gpu=1 "+mem))
			if err != nil || !req.Whole() {
				t.Fatalf("%+v, %v, want a whole GPU", req, err)
			}
			usage := usages(mi300x("g"))
			grants, reasons := d.Fit(req, Policy{}, len(usage), from(usage))
			if len(grants) != 1 || grants[0].MemoryMiB != 196288 {
				t.Errorf("%+v %v, want all 196288 MiB booked", grants, reasons)
			}
		})
	}
}

func TestMemoryHints(t *testing.T) {
	for mem, want := range map[string]string{
		"16Gi":                "write 16384)",
		"1Gi":                 "write 1024)",
		"1Mi":                 "write 1)",
		"17179869184":         "write 16384)",
		"8G":                  "write 7630)", // rounded up: 7629.39 MiB
		"1500m":               "(the unit is MiB)",
		"-1":                  "(the unit is MiB)",
		"9223372036854775807": "write 8796093022208)",
		"9223372036854775808": "(the unit is MiB)",
		"1e2000000":           "(the unit is MiB)",
	} {
		if _, reason := parseMemory(resource.MustParse(mem)); !strings.HasSuffix(reason, want) {
			t.Errorf("%s: %q, want %q", mem, reason, want)
		}
	}
}

// A quantity of a few bytes can stand for a number of a thousand million digits,
// and whoever creates a pod writes it. Only its size may be looked at, never its
// digits: two million of them fill 800 kB with each comparison.
func TestQuantitiesOfMillionsOfDigits(t *testing.T) {
	d := newDevices(t, Config{})
	for _, name := range []string{"gpu", "gpumem", "gpumem-percentage", "gpucores"} {
		for value, whole := range map[string]bool{
			"1e2000000": false, "123e1999999": false, "9e2000000": false, "-1e2000000": false,
			"8888888888888888881e88859": false, "-8888888888888888881e88859": false,
			"0e1999999": name != "gpucores", "0e2000000": name != "gpucores",
		} {
			ctr := limited(t, "gpu=1 "+name+"="+value)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := d.Request(ctr)
			_ = d.asks(ctr)
			runtime.ReadMemStats(&after)
			if (err == nil) != whole {
				t.Errorf("%s %s: error %v, want one: %t", name, value, err, !whole)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 1<<18 {
				t.Errorf("%s %s: %d bytes to read it", name, value, used)
			}
		}
	}
}

// C13 (a) and (b): what names no number of GPUs gets one at admission, and is
// never a request for nothing.
func TestC13MemoryOrCoresWithoutCount(t *testing.T) {
	for _, limits := range []string{"gpumem=8192", "gpucores=25", "gpumem-percentage=10"} {
		t.Run(limits, func(t *testing.T) {
			d := newDevices(t, Config{})
			pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{*limited(t, limits)}}}
			admission, err := d.Admit(pod)
			if err != nil || !admission.Asks {
				t.Fatalf("%+v, %v, want a pod that asks for GPUs", admission, err)
			}
			if req, err := d.Request(&pod.Spec.Containers[0]); err != nil || req.Count != 1 {
				t.Errorf("after admission: %+v, %v, want 1 GPU", req, err)
			}
		})
	}
}

// C13 (c): limits written as annotations do nothing, so they are refused.
func TestC13LimitsAsAnnotations(t *testing.T) {
	for _, name := range []string{"amd.com/gpu", "amd.com/gpumem", "amd.com/gpumem-percentage", "amd.com/gpucores", "amd.com/priority"} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{*limited(t, "gpu=1")}}}
			pod.Annotations = map[string]string{name: "8192"}
			_, err := newDevices(t, Config{}).Admit(pod)
			if err == nil || !strings.Contains(err.Error(), "write "+name+" under resources.limits") {
				t.Errorf("%v, want the right place named", err)
			}
		})
	}
}

func TestAsks(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{}, *limited(t, "gpu=1")},
		Containers: []corev1.Container{
			*limited(t, "gpu=0"), *limited(t, "gpumem=1"), *limited(t, "gpu=2 gpucores=500m"),
			{Resources: corev1.ResourceRequirements{Requests: resources(t, "gpu=1")}},
		},
	}}
	want := []bool{false, true, false, false, true, true}
	got := newDevices(t, Config{}).Asks(pod)
	for i := range want {
		if i >= len(got) || got[i] != want[i] {
			t.Fatalf("%v, want %v", got, want)
		}
	}
}

// Whatever a quantity says, a request is refused or within what HAMi's int32
// can hold, and admission agrees.
func FuzzRequest(f *testing.F) {
	for _, q := range []string{"0", "1", "100", "101", "-1", "500m", "16Gi", "1e19", "2147483648", "4294967346", "1Ki", "0.5", "1n", "9E"} {
		f.Add(q, q, q, q, q)
	}
	d, err := New(Config{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, count, mem, percent, cores, priority string) {
		limits := corev1.ResourceList{}
		for name, value := range map[corev1.ResourceName]string{
			"amd.com/gpu": count, "amd.com/gpumem": mem, "amd.com/gpumem-percentage": percent,
			"amd.com/gpucores": cores, "amd.com/priority": priority,
		} {
			// ParseQuantity writes out every digit of 1e-999999999, of 1e3333393333,
			// whose exponent wraps, and of mantissas beyond int64 at any exponent, so
			// no decoder ever gets a pod with them as far as admission.
			mantissa, exponent, _ := strings.Cut(strings.ToLower(value), "e")
			longest := 9
			if len(mantissa) > 18 || strings.HasPrefix(exponent, "-") {
				longest = 5
			}
			if len(exponent) > longest {
				continue
			}
			if q, err := resource.ParseQuantity(value); err == nil {
				limits[name] = q
			}
		}
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Resources: corev1.ResourceRequirements{Limits: limits},
		}}}}
		_, hasCount := limits["amd.com/gpu"]
		before, errBefore := d.Request(&pod.Spec.Containers[0])
		admission, err := d.Admit(pod)
		if err != nil {
			return
		}
		req, err := d.Request(&pod.Spec.Containers[0])
		if err != nil {
			t.Fatalf("admitted, but no request: %v", err)
		}
		if hasCount && (errBefore != nil || before != req) {
			t.Fatalf("admission changed %+v, %v to %+v", before, errBefore, req)
		}
		if admission.Asks != (req.Count > 0) {
			t.Fatalf("asks %v, request %+v", admission.Asks, req)
		}
		switch {
		case req == Request{}:
		case req.Count < 1, req.MemoryMiB < 0, req.MemoryPercent < 0, req.MemoryPercent > 100, req.Cores < 1, req.Cores > 100,
			req.MemoryMiB > 0 && req.MemoryPercent > 0:
			t.Fatalf("%+v", req)
		}
		again := pod.DeepCopy()
		if _, err := d.Admit(again); err != nil || !resourcesEqual(again, pod) {
			t.Fatalf("admitting again: %v", err)
		}
	})
}

func resourcesEqual(a, b *corev1.Pod) bool {
	for name, q := range a.Spec.Containers[0].Resources.Limits {
		if other := b.Spec.Containers[0].Resources.Limits[name]; q.Cmp(other) != 0 {
			return false
		}
	}
	return len(a.Spec.Containers[0].Resources.Limits) == len(b.Spec.Containers[0].Resources.Limits)
}
