package hook

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const testUID = "6a9c1f0e-58a1-4c39-9a4e-0d5f2b7c1e11"

func options() Options { return Options{PodUID: testUID, Container: "train"} }

// mounts are what every container with the hook gets below the host path.
func mounts(host string) []Mount {
	return []Mount{
		{HostPath: host + "/vgpu/libamvgpu.so", ContainerPath: "/usr/local/vgpu/libamvgpu.so", ReadOnly: true},
		{HostPath: host + "/vgpu/containers/" + testUID + "_train", ContainerPath: "/usr/local/vgpu/shared"},
	}
}

func TestInject(t *testing.T) {
	cache := EnvVar{"HIP_DEVICE_MEMORY_SHARED_CACHE", "/usr/local/vgpu/shared/hipdevshr.cache"}
	audit := EnvVar{"LD_AUDIT", "/usr/local/vgpu/libamvgpu.so"}
	tests := map[string]struct {
		devices []Device
		change  func(*Options)
		want    Injection
	}{
		"one slice": {
			devices: []Device{{LimitMiB: 98304}},
			want: Injection{
				Env: []EnvVar{
					{"HIP_DEVICE_MEMORY_LIMIT", "98304m"},
					{"HIP_DEVICE_MEMORY_LIMIT_0", "98304m"},
					cache, audit,
				},
				Mounts: mounts("/usr/local"),
			},
		},
		"two slices of different size": {
			devices: []Device{{LimitMiB: 16384}, {LimitMiB: 8192}},
			want: Injection{
				Env: []EnvVar{
					{"HIP_DEVICE_MEMORY_LIMIT", "16384m"},
					{"HIP_DEVICE_MEMORY_LIMIT_0", "16384m"},
					{"HIP_DEVICE_MEMORY_LIMIT_1", "8192m"},
					cache, audit,
				},
				Mounts: mounts("/usr/local"),
			},
		},
		"a whole first device leaves the general limit out": {
			devices: []Device{{Whole: true}, {LimitMiB: 8192}},
			want: Injection{
				Env:    []EnvVar{{"HIP_DEVICE_MEMORY_LIMIT_1", "8192m"}, cache, audit},
				Mounts: mounts("/usr/local"),
			},
		},
		"a whole second device keeps its number": {
			devices: []Device{{LimitMiB: 1}, {Whole: true}, {LimitMiB: 2}},
			want: Injection{
				Env: []EnvVar{
					{"HIP_DEVICE_MEMORY_LIMIT", "1m"},
					{"HIP_DEVICE_MEMORY_LIMIT_0", "1m"},
					{"HIP_DEVICE_MEMORY_LIMIT_2", "2m"},
					cache, audit,
				},
				Mounts: mounts("/usr/local"),
			},
		},
		"every option": {
			devices: []Device{{LimitMiB: 4096}},
			change: func(o *Options) {
				o.HostPath = "/var/lib/hami/"
				o.LogLevel = 4
				o.Oversubscribe = true
				o.Audit = "/opt/trace.so"
			},
			want: Injection{
				Env: []EnvVar{
					{"HIP_DEVICE_MEMORY_LIMIT", "4096m"},
					{"HIP_DEVICE_MEMORY_LIMIT_0", "4096m"},
					cache,
					{"LD_AUDIT", "/opt/trace.so:/usr/local/vgpu/libamvgpu.so"},
					{"LIBHIP_LOG_LEVEL", "4"},
					{"HIP_OVERSUBSCRIBE", "true"},
				},
				Mounts: mounts("/var/lib/hami"),
			},
		},
		"left out keeps the limits to read": {
			devices: []Device{{LimitMiB: 4096}},
			change:  func(o *Options) { o.LeftOut = true; o.LogLevel = 4; o.Oversubscribe = true },
			want: Injection{
				Env: []EnvVar{{"HIP_DEVICE_MEMORY_LIMIT", "4096m"}, {"HIP_DEVICE_MEMORY_LIMIT_0", "4096m"}},
			},
		},
		"no devices": {},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			o := options()
			if tt.change != nil {
				tt.change(&o)
			}
			got, err := Inject(tt.devices, o)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("injection (-want +got):\n%s", diff)
			}
		})
	}
}

// A pod with whole GPUs runs whatever its image: nothing of ours reaches it.
func TestC43WholeGPUGetsNoHook(t *testing.T) {
	for name, devices := range map[string][]Device{
		"one":   {{Whole: true}},
		"eight": {{Whole: true}, {Whole: true}, {Whole: true}, {Whole: true}, {Whole: true}, {Whole: true}, {Whole: true}, {Whole: true}},
	} {
		t.Run(name, func(t *testing.T) {
			o := options()
			o.Audit, o.LogLevel, o.Oversubscribe = "/opt/trace.so", 3, true
			got, err := Inject(devices, o)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(Injection{}, got); diff != "" {
				t.Errorf("injection (-want +got):\n%s", diff)
			}
		})
	}
}

// The mount's source follows the configured path, its target and LD_AUDIT do
// not: what the loader is told to open is exactly what is mounted.
func TestC42ConfiguredPathIsUsed(t *testing.T) {
	o := options()
	o.HostPath = "/var/lib/hami"
	got, err := Inject([]Device{{LimitMiB: 512}}, o)
	if err != nil {
		t.Fatal(err)
	}
	library := got.Mounts[0]
	if library.HostPath != "/var/lib/hami/vgpu/libamvgpu.so" || !library.ReadOnly {
		t.Errorf("library mount = %+v, want the configured path, read-only", library)
	}
	var audit string
	for _, v := range got.Env {
		if v.Name == AuditEnv {
			audit = v.Value
		}
	}
	if audit != library.ContainerPath {
		t.Errorf("LD_AUDIT = %q, want the mount's target %q", audit, library.ContainerPath)
	}
}

func TestInjectRefuses(t *testing.T) {
	many := make([]Device, 65)
	for i := range many {
		many[i] = Device{LimitMiB: 64}
	}
	tests := map[string]struct {
		devices []Device
		change  func(*Options)
		want    string
		is      error
	}{
		"a slice of zero":          {devices: []Device{{}}, want: "hook limit of device 0: want MiB above 0, have 0: slice has no memory limit", is: ErrNoLimit},
		"a second slice of zero":   {devices: []Device{{LimitMiB: 1}, {}}, want: "hook limit of device 1: want MiB above 0, have 0: slice has no memory limit", is: ErrNoLimit},
		"a negative slice":         {devices: []Device{{LimitMiB: -1}}, want: "hook limit of device 0: want MiB above 0, have -1: slice has no memory limit", is: ErrNoLimit},
		"a whole GPU with a limit": {devices: []Device{{Whole: true, LimitMiB: 5}}, want: "hook limit of device 0: a whole GPU has none, have 5 MiB"},
		"more than the hook knows": {devices: many, want: "hook limit of device 64: the hook limits devices 0 to 63: slice has no memory limit", is: ErrNoLimit},
		"a log level above 4":      {change: func(o *Options) { o.LogLevel = 5 }, want: "hook log level: want 0 to 4, have 5"},
		"a log level below 0":      {change: func(o *Options) { o.LogLevel = -1 }, want: "hook log level: want 0 to 4, have -1"},
		"a relative host path":     {change: func(o *Options) { o.HostPath = "usr/local" }, want: `hook host path: want an absolute path, have "usr/local"`},
		"no pod uid":               {change: func(o *Options) { o.PodUID = "" }, want: `hook directory: pod uid: want 1 to 120 letters, digits and dashes, have ""`},
		"a pod uid that climbs":    {change: func(o *Options) { o.PodUID = "../.." }, want: `hook directory: pod uid: want 1 to 120 letters, digits and dashes, have "../.."`},
		"a container that climbs":  {change: func(o *Options) { o.Container = "a/../../b" }, want: `hook directory: container name: want 1 to 120 letters, digits and dashes, have "a/../../b"`},
		"an underscore in a name":  {change: func(o *Options) { o.Container = "a_b" }, want: `hook directory: container name: want 1 to 120 letters, digits and dashes, have "a_b"`},
		"a container name too long": {change: func(o *Options) { o.Container = strings.Repeat("a", 121) },
			want: `hook directory: container name: want 1 to 120 letters, digits and dashes, have "` + strings.Repeat("a", 121) + `"`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			o := options()
			if tt.change != nil {
				tt.change(&o)
			}
			devices := tt.devices
			if devices == nil {
				devices = []Device{{LimitMiB: 64}}
			}
			got, err := Inject(devices, o)
			if err == nil {
				t.Fatalf("got %+v, want an error", got)
			}
			if err.Error() != tt.want {
				t.Errorf("error = %q\nwant    %q", err, tt.want)
			}
			if tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("error is not %v", tt.is)
			}
			if diff := cmp.Diff(Injection{}, got); diff != "" {
				t.Errorf("a refusal came with an injection:\n%s", diff)
			}
		})
	}
}

// Whatever the devices, a limit is a positive number and one letter: the hook
// takes every other spelling, 0m included, for "no limit".
func FuzzInjectLimits(f *testing.F) {
	f.Add(int32(0), int32(1), false)
	f.Add(int32(-5), int32(2147483647), true)
	f.Fuzz(func(t *testing.T, a, b int32, whole bool) {
		devices := []Device{{LimitMiB: a}, {LimitMiB: b, Whole: whole}}
		got, err := Inject(devices, options())
		if err != nil {
			return
		}
		n := 0
		for _, v := range got.Env {
			if v.Name != LimitEnv && !strings.HasPrefix(v.Name, LimitEnvPrefix) {
				continue
			}
			n++
			digits, ok := strings.CutSuffix(v.Value, "m")
			if !ok || digits == "" || digits[0] < '1' || digits[0] > '9' || strings.Trim(digits, "0123456789") != "" {
				t.Errorf("%s=%q, want a positive number and m", v.Name, v.Value)
			}
		}
		want := 3
		if whole {
			want = 2
		}
		if n != want {
			t.Errorf("%d limits, want %d: %+v", n, want, got.Env)
		}
	})
}

func TestAppendAudit(t *testing.T) {
	const ours = "/usr/local/vgpu/libamvgpu.so"
	for name, tt := range map[string]struct{ in, want string }{
		"none":                  {"", ours},
		"one":                   {"/opt/a.so", "/opt/a.so:" + ours},
		"two":                   {"/opt/a.so:b.so", "/opt/a.so:b.so:" + ours},
		"ends in a colon":       {"/opt/a.so:", "/opt/a.so:" + ours},
		"ours already":          {ours, ours},
		"ours among others":     {"/opt/a.so:" + ours + ":b.so", "/opt/a.so:" + ours + ":b.so"},
		"a longer path of ours": {"/x" + ours, "/x" + ours + ":" + ours},
	} {
		t.Run(name, func(t *testing.T) {
			got := AppendAudit(tt.in)
			if got != tt.want {
				t.Errorf("AppendAudit(%q) = %q, want %q", tt.in, got, tt.want)
			}
			if again := AppendAudit(got); again != got {
				t.Errorf("a second time: %q", again)
			}
			if !LoadsHook(got) {
				t.Errorf("LoadsHook(%q) = false", got)
			}
		})
	}
	if LoadsHook("/opt/a.so:libamvgpu.so") {
		t.Error("a library of the same name elsewhere counts as the hook")
	}
}
