package hook

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
)

// The variables of a container with a slice. The names, and the grammar of
// their values, are the hook's; AuditEnv is the loader's (man 8 ld.so).
const (
	// LimitEnv is the limit of every device without one of its own, as
	// "<MiB>m". The hook looks only at this and index 0 when it retries.
	LimitEnv = "HIP_DEVICE_MEMORY_LIMIT"
	// LimitEnvPrefix and a HIP device index of the container, 0..63, make the
	// limit of that device.
	LimitEnvPrefix = "HIP_DEVICE_MEMORY_LIMIT_"
	// CacheEnv is the path of the accounting file that the processes of one
	// container share.
	CacheEnv = "HIP_DEVICE_MEMORY_SHARED_CACHE"
	// OversubscribeEnv set to "true" makes the hook serve hipMalloc from
	// managed memory.
	OversubscribeEnv = "HIP_OVERSUBSCRIBE"
	// LogLevelEnv is 1 (error) to 4 (debug).
	LogLevelEnv = "LIBHIP_LOG_LEVEL"
	// AuditEnv is a colon separated list of audit libraries.
	AuditEnv = "LD_AUDIT"
)

// Where a container finds the hook.
const (
	// Library is the hook's file name, on the host and in the container.
	Library = "libamvgpu.so"
	// ContainerLibrary is the hook in every container, whatever the host path.
	ContainerLibrary = "/usr/local/vgpu/" + Library
	// ContainerCacheDir is where the container's own directory of the host is
	// mounted, writable.
	ContainerCacheDir = "/usr/local/vgpu/shared"
	// CacheFile is the accounting file's name in that directory.
	CacheFile = "hipdevshr.cache"
	// ContainerCache is the value of [CacheEnv].
	ContainerCache = ContainerCacheDir + "/" + CacheFile
	// DefaultHostPath is the host directory below which HAMi keeps vgpu/.
	DefaultHostPath = "/usr/local"
)

// maxDevices is how many HIP device indices the hook has limits for.
const maxDevices = 64

// ErrNoLimit is a slice without a positive memory limit. The hook reads zero
// as "no limit", so such a slice must not start.
var ErrNoLimit = errors.New("slice has no memory limit")

// Device is one GPU of a container as the hook sees it. The zero value is a
// slice without a limit, which is refused.
type Device struct {
	// Whole is a GPU the container holds alone: it gets no limit.
	Whole bool
	// LimitMiB is the slice's memory in MiB, above 0; 0 for a whole GPU.
	LimitMiB int32
}

// Options are the container's and the node's part of an injection.
type Options struct {
	// HostPath is the host directory that holds vgpu/libamvgpu.so, absolute;
	// "" is [DefaultHostPath].
	HostPath string
	// PodUID and Container name the container's directory on the host.
	PodUID, Container string
	// LogLevel is the hook's log level, 1 (error) to 4 (debug); 0 leaves the
	// library's default.
	LogLevel int
	// Oversubscribe is set when the node registers more VRAM than it has.
	Oversubscribe bool
	// Audit is the literal LD_AUDIT of the pod spec, "" if it has none.
	Audit string
	// LeftOut is set when [Decide] answered [LeaveOut]: the limits stay in the
	// environment, because hipMemGetInfo shows the whole card in a container
	// that only the kernel limits and a program can size itself from them,
	// but nothing is loaded or mounted.
	LeftOut bool
}

// EnvVar is one variable of a container's environment.
type EnvVar struct{ Name, Value string }

// Mount is one bind mount into a container.
type Mount struct {
	HostPath, ContainerPath string
	ReadOnly                bool
}

// Injection is what a container with a slice gets on top of its spec. Both
// lists are in a fixed order.
type Injection struct {
	Env    []EnvVar
	Mounts []Mount
}

// Inject returns the environment and the mounts of a container that holds
// devices, in the order in which the container numbers them (grant order).
//
// A container whose devices are all whole gets nothing. Otherwise device i
// that is a slice gets HIP_DEVICE_MEMORY_LIMIT_<i>, and the general limit is
// device 0's if that is a slice. The general limit also reaches whole devices
// of the same container; both come from one request, so it then equals all
// the memory of the whole one.
//
// Inject only describes: the mounts' sources must exist before the container
// starts ([Check], [Containers.Create]).
func Inject(devices []Device, o Options) (Injection, error) {
	limits, err := limitEnv(devices)
	if err != nil || len(limits) == 0 {
		return Injection{}, err
	}
	if o.LeftOut {
		return Injection{Env: limits}, nil
	}
	if o.LogLevel < 0 || o.LogLevel > 4 {
		return Injection{}, fmt.Errorf("hook log level: want 0 to 4, have %d", o.LogLevel)
	}
	library, err := HostLibrary(o.HostPath)
	if err != nil {
		return Injection{}, err
	}
	dir, err := ContainerDir(o.HostPath, o.PodUID, o.Container)
	if err != nil {
		return Injection{}, err
	}

	env := append(limits,
		EnvVar{CacheEnv, ContainerCache},
		EnvVar{AuditEnv, AppendAudit(o.Audit)})
	if o.LogLevel != 0 {
		env = append(env, EnvVar{LogLevelEnv, strconv.Itoa(o.LogLevel)})
	}
	if o.Oversubscribe {
		env = append(env, EnvVar{OversubscribeEnv, "true"})
	}
	return Injection{
		Env: env,
		Mounts: []Mount{
			{HostPath: library, ContainerPath: ContainerLibrary, ReadOnly: true},
			{HostPath: dir, ContainerPath: ContainerCacheDir},
		},
	}, nil
}

// limitEnv is the memory limits of the sliced devices, empty if all are whole.
func limitEnv(devices []Device) ([]EnvVar, error) {
	var env []EnvVar
	for i, d := range devices {
		switch {
		case d.Whole && d.LimitMiB != 0:
			return nil, fmt.Errorf("hook limit of device %d: a whole GPU has none, have %d MiB", i, d.LimitMiB)
		case d.Whole:
			continue
		case d.LimitMiB <= 0:
			return nil, fmt.Errorf("hook limit of device %d: want MiB above 0, have %d: %w", i, d.LimitMiB, ErrNoLimit)
		case i >= maxDevices:
			return nil, fmt.Errorf("hook limit of device %d: the hook limits devices 0 to %d: %w", i, maxDevices-1, ErrNoLimit)
		}
		// Any suffix but a single letter makes the hook read "unlimited".
		value := strconv.Itoa(int(d.LimitMiB)) + "m"
		if i == 0 {
			env = append(env, EnvVar{LimitEnv, value})
		}
		env = append(env, EnvVar{LimitEnvPrefix + strconv.Itoa(i), value})
	}
	return env, nil
}

// HostLibrary is the hook's file below the host path; "" is
// [DefaultHostPath].
func HostLibrary(hostPath string) (string, error) {
	dir, err := vgpuDir(hostPath)
	if err != nil {
		return "", err
	}
	return path.Join(dir, Library), nil
}

// ContainerDir is the host directory of one container's accounting file:
// <host path>/vgpu/containers/<pod uid>_<container>. Both names come from the
// API; names that could leave the directory are refused.
func ContainerDir(hostPath, podUID, container string) (string, error) {
	dir, err := vgpuDir(hostPath)
	if err != nil {
		return "", err
	}
	name, err := containerDirName(podUID, container)
	if err != nil {
		return "", err
	}
	return path.Join(dir, containersDir, name), nil
}

const containersDir = "containers"

func vgpuDir(hostPath string) (string, error) {
	if hostPath == "" {
		hostPath = DefaultHostPath
	}
	if !path.IsAbs(hostPath) {
		return "", fmt.Errorf("hook host path: want an absolute path, have %q", hostPath)
	}
	return path.Join(hostPath, "vgpu"), nil
}

func containerDirName(podUID, container string) (string, error) {
	if !plainName(podUID) {
		return "", fmt.Errorf("hook directory: pod uid: want 1 to %d letters, digits and dashes, have %q", maxName, podUID)
	}
	if !plainName(container) {
		return "", fmt.Errorf("hook directory: container name: want 1 to %d letters, digits and dashes, have %q", maxName, container)
	}
	return podUID + "_" + container, nil
}

// maxName keeps <uid>_<container> within a file name's 255 bytes. Kubernetes'
// container names have at most 63, its uids 36.
const maxName = 120

func plainName(s string) bool {
	if s == "" || len(s) > maxName {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return true
}

// AppendAudit is the LD_AUDIT of a container whose spec has the literal value
// audit: the user's libraries first, then the hook, once. An empty value gives
// the hook alone.
func AppendAudit(audit string) string {
	switch {
	case audit == "":
		return ContainerLibrary
	case LoadsHook(audit):
		return audit
	}
	return strings.TrimSuffix(audit, ":") + ":" + ContainerLibrary
}

// LoadsHook reports whether an LD_AUDIT value names the hook by its path in
// the container. Kubelet puts the pod spec's own variables after the plugin's,
// so a spec whose literal LD_AUDIT does not load the hook switches it off.
func LoadsHook(audit string) bool {
	for name := range strings.SplitSeq(audit, ":") {
		if name == ContainerLibrary {
			return true
		}
	}
	return false
}
