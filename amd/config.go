package amd

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/Project-HAMi/hami-amd/cumask"
)

// Vendor is the word under which HAMi files these devices: CommonWord, the key
// of its device maps and the start of every registered product type.
const Vendor = "AMD"

// The names and paths a zero Config stands for.
const (
	DefaultCountName            = "amd.com/gpu"
	DefaultMemoryName           = "amd.com/gpumem"
	DefaultMemoryPercentageName = "amd.com/gpumem-percentage"
	DefaultCoreName             = "amd.com/gpucores"
	DefaultPriorityName         = "amd.com/priority"
	// DefaultHookPath is where containers see the memory hook.
	DefaultHookPath = "/usr/local/vgpu/libamvgpu.so"
)

// Config is the "amd" block of HAMi's device configuration, and this package's
// own settings beside HAMi's. The zero value is HAMi's behaviour with the
// default names.
type Config struct {
	// The extended resources of a container, each with its default in brackets:
	// how many GPUs (amd.com/gpu), MiB of VRAM on each (amd.com/gpumem),
	// percent of each GPU's VRAM (amd.com/gpumem-percentage), percent of each
	// GPU's CUs (amd.com/gpucores), queue priority (amd.com/priority).
	ResourceCountName            string `json:"resourceCountName,omitempty" yaml:"resourceCountName,omitempty"`
	ResourceMemoryName           string `json:"resourceMemoryName,omitempty" yaml:"resourceMemoryName,omitempty"`
	ResourceMemoryPercentageName string `json:"resourceMemoryPercentageName,omitempty" yaml:"resourceMemoryPercentageName,omitempty"`
	ResourceCoreName             string `json:"resourceCoreName,omitempty" yaml:"resourceCoreName,omitempty"`
	ResourcePriorityName         string `json:"resourcePriorityName,omitempty" yaml:"resourcePriorityName,omitempty"`
	// RuntimeClassName is set on a pod that asks for GPUs and names none.
	// Empty sets nothing.
	RuntimeClassName string `json:"runtimeClassName,omitempty" yaml:"runtimeClassName,omitempty"`

	// DefaultCount is the number of GPUs of a container that names memory or
	// cores but no number. 0 means 1.
	DefaultCount int32 `json:"defaultCount,omitempty" yaml:"defaultCount,omitempty"`
	// DefaultMemory is the MiB of a container that names cores but no memory.
	// 0 means all of each GPU's.
	DefaultMemory int32 `json:"defaultMemory,omitempty" yaml:"defaultMemory,omitempty"`
	// DefaultCores is the percentage of CUs of a container that names memory
	// but no cores: 1 to 100, or 0 for memory alone, without CUs or mask of its
	// own. Absent means 100, as in HAMi. A container that names neither gets
	// whole GPUs whatever this says.
	DefaultCores *int32 `json:"defaultCores,omitempty" yaml:"defaultCores,omitempty"`
	// Rounding of a percentage to CUs: "plain" (the default and the protocol's
	// formula) or "balanced", see cumask.Rounding. The nodes must count alike.
	Rounding string `json:"rounding,omitempty" yaml:"rounding,omitempty"`

	// StrictAdmission refuses pods that would otherwise be put right or noted:
	// annotations of the protocol set by a user, memory as a figure and as a
	// percentage at once, envFrom in a slice, policy words nobody knows.
	StrictAdmission bool `json:"strictAdmission,omitempty" yaml:"strictAdmission,omitempty"`
	// DisableScore makes Score answer 0 for every node, as HAMi's own backend
	// does, so that HAMi's base score alone ranks them.
	DisableScore bool `json:"disableScore,omitempty" yaml:"disableScore,omitempty"`
	// QuotaCores lets a ResourceQuota limit ResourceCoreName. Off by default:
	// HAMi adds up CUs once pods run and compares them with percentages.
	QuotaCores bool `json:"quotaCores,omitempty" yaml:"quotaCores,omitempty"`
	// HookPath is the memory hook's path inside containers, the value that an
	// LD_AUDIT of a container is extended by. Default DefaultHookPath.
	HookPath string `json:"hookPath,omitempty" yaml:"hookPath,omitempty"`
}

// ParseConfig reads a Config from YAML or JSON and validates it. Every key
// nobody knows is named in the error; a key twice is an error too. Empty input
// is the zero Config.
func ParseConfig(data []byte) (Config, error) {
	var keys map[string]json.RawMessage
	if err := yaml.Unmarshal(data, &keys); err != nil {
		return Config{}, fmt.Errorf("amd config: %w", err)
	}
	known := configKeys()
	var unknown []string
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if !slices.Contains(known, key) {
			unknown = append(unknown, fmt.Sprintf("%.64q", key))
		}
	}
	if len(unknown) > 0 {
		return Config{}, fmt.Errorf("amd config: unknown keys %s: want some of %s",
			strings.Join(unknown, ", "), strings.Join(known, ", "))
	}
	if err := checkKinds(keys); err != nil {
		return Config{}, fmt.Errorf("amd config: %w", err)
	}
	var c Config
	if err := yaml.UnmarshalStrict(data, &c); err != nil {
		return Config{}, fmt.Errorf("amd config: %w", err)
	}
	if err := c.Validate(); err != nil {
		return Config{}, err
	}
	return c, nil
}

// checkKinds says of each value that is none of its field's what one is: the
// decoder's own words are Go's.
func checkKinds(values map[string]json.RawMessage) error {
	var errs []error
	for f := range reflect.TypeFor[Config]().Fields() {
		key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		value, ok := values[key]
		if !ok || json.Unmarshal(value, reflect.New(f.Type).Interface()) == nil {
			continue
		}
		want := "text"
		switch typ := f.Type; {
		case typ.Kind() == reflect.Bool:
			want = "true or false"
		case typ.Kind() != reflect.String:
			want = fmt.Sprintf("a whole number up to %d", math.MaxInt32)
		}
		errs = append(errs, fmt.Errorf("%s: want %s, found %.64s", key, want, value))
	}
	return errors.Join(errs...)
}

// configKeys lists the keys of a Config, in the order of its fields.
func configKeys() []string {
	var keys []string
	for f := range reflect.TypeFor[Config]().Fields() {
		key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		keys = append(keys, key)
	}
	return keys
}

// Validate reports everything that is wrong with the configuration.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	seen := map[string]string{}
	for _, r := range []struct{ key, name string }{
		{"resourceCountName", c.ResourceCountName},
		{"resourceMemoryName", c.ResourceMemoryName},
		{"resourceMemoryPercentageName", c.ResourceMemoryPercentageName},
		{"resourceCoreName", c.ResourceCoreName},
		{"resourcePriorityName", c.ResourcePriorityName},
	} {
		if why := extendedResourceFault(r.name); why != "" {
			errs = append(errs, fmt.Errorf("%s: %.128q: %s", r.key, r.name, why))
		}
		if other, twice := seen[r.name]; twice {
			errs = append(errs, fmt.Errorf("%s: %.128q is also %s", r.key, r.name, other))
		}
		seen[r.name] = r.key
	}
	if c.RuntimeClassName != "" {
		if why := validation.IsDNS1123Subdomain(c.RuntimeClassName); len(why) > 0 {
			errs = append(errs, fmt.Errorf("runtimeClassName: %.128q: %s", c.RuntimeClassName, why[0]))
		}
	}
	if c.DefaultCount < 1 {
		errs = append(errs, fmt.Errorf("defaultCount: want 0 for 1 GPU, or 1 to %d, found %d", math.MaxInt32, c.DefaultCount))
	}
	if c.DefaultMemory < 0 {
		errs = append(errs, fmt.Errorf("defaultMemory: want MiB from 0 (all of a GPU) to %d, found %d", math.MaxInt32, c.DefaultMemory))
	}
	if cores := *c.DefaultCores; cores < 0 || cores > 100 {
		errs = append(errs, fmt.Errorf("defaultCores: want percent from 0 (memory alone) to 100, found %d", cores))
	}
	if _, err := cumask.ParseRounding(c.Rounding); err != nil {
		errs = append(errs, err)
	}
	if !strings.HasPrefix(c.HookPath, "/") || strings.ContainsAny(c.HookPath, ": \n") {
		errs = append(errs, fmt.Errorf("hookPath: want an absolute path without colons and spaces, found %.128q", c.HookPath))
	}
	if len(errs) > 0 {
		return fmt.Errorf("amd config: %w", errors.Join(errs...))
	}
	return nil
}

// extendedResourceFault says why Kubernetes would not take name as an extended
// resource in a container's limits, or "".
func extendedResourceFault(name string) string {
	if why := validation.IsQualifiedName(name); len(why) > 0 {
		return why[0]
	}
	domain, _, qualified := strings.Cut(name, "/")
	if !qualified || domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io") {
		return "want a domain of your own before the slash, such as amd.com/gpu"
	}
	return ""
}

func (c Config) withDefaults() Config {
	for _, f := range []struct {
		value *string
		unset string
	}{
		{&c.ResourceCountName, DefaultCountName},
		{&c.ResourceMemoryName, DefaultMemoryName},
		{&c.ResourceMemoryPercentageName, DefaultMemoryPercentageName},
		{&c.ResourceCoreName, DefaultCoreName},
		{&c.ResourcePriorityName, DefaultPriorityName},
		{&c.HookPath, DefaultHookPath},
	} {
		if *f.value == "" {
			*f.value = f.unset
		}
	}
	if c.DefaultCount == 0 {
		c.DefaultCount = 1
	}
	cores := int32(100)
	if c.DefaultCores != nil {
		cores = *c.DefaultCores
	}
	c.DefaultCores = &cores
	return c
}

// Devices is the scheduler's side of AMD GPUs under one configuration. Its
// methods may be called from many goroutines at once.
type Devices struct {
	config   Config // complete: no field stands for a default
	cores    int32  // *config.DefaultCores
	rounding cumask.Rounding

	// scratch recycles the buffers of Fit.
	scratch sync.Pool

	nodes nodeCache
}

// New returns the scheduler's side of AMD GPUs, or what is wrong with the
// configuration.
func New(config Config) (*Devices, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	config = config.withDefaults()
	rounding, err := cumask.ParseRounding(config.Rounding)
	if err != nil {
		return nil, fmt.Errorf("amd config: %w", err)
	}
	return &Devices{
		config:   config,
		cores:    *config.DefaultCores,
		rounding: rounding,
		scratch:  sync.Pool{New: func() any { return new(fitter) }},
	}, nil
}

// Config returns the configuration, with defaults filled in.
func (d *Devices) Config() Config {
	c := d.config
	cores := d.cores
	c.DefaultCores = &cores
	return c
}
