package amd

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

func TestParseConfig(t *testing.T) {
	none := int32(0)
	full := Config{
		ResourceCountName: "amd.com/gpu", ResourceMemoryName: "amd.com/gpumem",
		ResourceMemoryPercentageName: "amd.com/gpumem-percentage", ResourceCoreName: "amd.com/gpucores",
		ResourcePriorityName: "amd.com/priority", RuntimeClassName: "amd",
		DefaultCount: 2, DefaultMemory: 1024, DefaultCores: &none, Rounding: "balanced",
		StrictAdmission: true, DisableScore: true, QuotaCores: true, HookPath: "/opt/vgpu/libamvgpu.so",
	}
	for name, test := range map[string]struct {
		in   string
		want Config
	}{
		"nothing":        {"", Config{}},
		"an empty block": {"{}", Config{}},
		"HAMi's chart": {
			"resourceCountName: amd.com/gpu\nresourceMemoryName: amd.com/gpumem\nresourceCoreName: amd.com/gpucores\n",
			Config{ResourceCountName: "amd.com/gpu", ResourceMemoryName: "amd.com/gpumem", ResourceCoreName: "amd.com/gpucores"},
		},
		"JSON": {`{"resourceCountName": "example.com/gpu"}`, Config{ResourceCountName: "example.com/gpu"}},
		"everything": {`
resourceCountName: amd.com/gpu
resourceMemoryName: amd.com/gpumem
resourceMemoryPercentageName: amd.com/gpumem-percentage
resourceCoreName: amd.com/gpucores
resourcePriorityName: amd.com/priority
runtimeClassName: amd
defaultCount: 2
defaultMemory: 1024
defaultCores: 0
rounding: balanced
strictAdmission: true
disableScore: true
quotaCores: true
hookPath: /opt/vgpu/libamvgpu.so
`, full},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseConfig([]byte(test.in))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if _, err := New(got); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestParseConfigRefuses(t *testing.T) {
	for name, test := range map[string]struct{ in, want string }{
		"unknown keys, all of them": {"resourceCount: amd.com/gpu\nmemory: 1\n", `unknown keys "memory", "resourceCount"`},
		"a key in another case":     {"ResourceCountName: amd.com/gpu\n", `unknown keys "ResourceCountName"`},
		"a key twice":               {"rounding: plain\nrounding: balanced\n", "already set"},
		"another type":              {"defaultCount: many\n", "defaultCount"},
		"a word for a number":       {"defaultCores: none\n", `defaultCores: want a whole number up to 2147483647, found "none"`},
		"half a number":             {"defaultCores: 1.5\n", "want a whole number up to 2147483647, found 1.5"},
		"a word for a truth":        {"strictAdmission: always\n", `strictAdmission: want true or false, found "always"`},
		"a number for a name":       {"hookPath: 5\ndefaultCount: x\n", "hookPath: want text, found 5"},
		"a list":                    {"- rounding: plain\n", "amd config"},
		"no YAML":                   {"{", "amd config"},
		"a resource without domain": {"resourceCountName: gpu\n", "resourceCountName: \"gpu\": want a domain"},
		"a resource of Kubernetes":  {"resourceCountName: kubernetes.io/gpu\n", "want a domain"},
		"no resource at all":        {"resourceCountName: amd.com/g pu\n", "resourceCountName"},
		"two of one name":           {"resourceMemoryName: amd.com/gpu\n", "is also resourceCountName"},
		"no runtime class":          {"runtimeClassName: AMD_x\n", "runtimeClassName"},
		"a negative count":          {"defaultCount: -1\n", "defaultCount"},
		"a negative memory":         {"defaultMemory: -1\n", "defaultMemory"},
		"cores above 100":           {"defaultCores: 101\n", "defaultCores"},
		"negative cores":            {"defaultCores: -1\n", "defaultCores"},
		"unknown rounding":          {"rounding: up\n", "want plain or balanced"},
		"a relative hook":           {"hookPath: libamvgpu.so\n", "hookPath"},
		"a hook with a colon":       {"hookPath: /a:/b\n", "hookPath"},
		"more than one fault":       {"defaultCount: -1\ndefaultCores: 101\n", "defaultCores"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseConfig([]byte(test.in))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("%+v, %v, want %q", got, err, test.want)
			}
			if diff := cmp.Diff(Config{}, got); diff != "" {
				t.Errorf("a value beside the error:\n%s", diff)
			}
		})
	}
}

func TestConfigDefaults(t *testing.T) {
	hundred := int32(100)
	want := Config{
		ResourceCountName: "amd.com/gpu", ResourceMemoryName: "amd.com/gpumem",
		ResourceMemoryPercentageName: "amd.com/gpumem-percentage", ResourceCoreName: "amd.com/gpucores",
		ResourcePriorityName: "amd.com/priority",
		DefaultCount:         1, DefaultCores: &hundred, HookPath: "/usr/local/vgpu/libamvgpu.so",
	}
	d := newDevices(t, Config{})
	got := d.Config()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	*got.DefaultCores = 7
	if *d.Config().DefaultCores != 100 {
		t.Error("the configuration can be changed through a copy of it")
	}
	if _, err := New(Config{DefaultCount: -1}); err == nil {
		t.Error("New took a configuration that Validate refuses")
	}
}

// A configuration in force reads back as itself, so that it can be printed.
func TestConfigRoundTrip(t *testing.T) {
	want := newDevices(t, Config{Rounding: "balanced"}).Config()
	text, err := yaml.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseConfig(text)
	if err != nil {
		t.Fatalf("%s\n%v", text, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func FuzzParseConfig(f *testing.F) {
	for _, seed := range []string{"", "{}", "rounding: balanced", "defaultCores: 0", `{"a":1}`, "- x", "defaultCount: 1e3", "hookPath: /x"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := ParseConfig(data)
		if err != nil {
			return
		}
		if _, err := New(c); err != nil {
			t.Errorf("parsed but not taken: %+v: %v", c, err)
		}
	})
}

// A scheduler that imports this package must not compile a cluster client, gRPC,
// a container runtime or metrics.
func TestImports(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	deps := string(out)
	if !strings.Contains(deps, "k8s.io/api/core/v1\n") {
		t.Fatalf("go list names no Kubernetes API:\n%s", deps)
	}
	for _, forbidden := range []string{
		"google.golang.org/grpc", "k8s.io/client-go", "k8s.io/kubelet", "github.com/containerd",
		"github.com/prometheus", "github.com/spf13",
	} {
		for dep := range strings.Lines(deps) {
			if strings.HasPrefix(dep, forbidden) {
				t.Errorf("imports %s", strings.TrimSpace(dep))
			}
		}
	}
	const module = "github.com/Project-HAMi/hami-amd/"
	for dep := range strings.Lines(deps) {
		room, ours := strings.CutPrefix(strings.TrimSpace(dep), module)
		if ours && room != "amd" && room != "annotations" && room != "cumask" {
			t.Errorf("imports %s, want annotations and cumask alone of this module", room)
		}
	}
}
