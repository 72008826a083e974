package plugin

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/Project-HAMi/hami-amd/partition"
)

// maxNodeConfig bounds the settings file: a ConfigMap has at most 1 MiB.
const maxNodeConfig = 1 << 20

// nodeSettings are the settings of one node. What is nil was not given.
type nodeSettings struct {
	OperatingMode    *string
	ComputePartition *string
	SplitCount       *int
	MemoryScaling    *float64
	ExcludeIDs       []string
	ExcludeIndexes   []uint
}

// over returns the configuration with the node's settings in place of its own.
// Devices to filter are added to those that are excluded already.
func (s nodeSettings) over(c Config) Config {
	set := func(to *string, from *string) {
		if from != nil {
			*to = *from
		}
	}
	set(&c.OperatingMode, s.OperatingMode)
	set(&c.ComputePartition, s.ComputePartition)
	if s.SplitCount != nil {
		c.SplitCount = *s.SplitCount
	}
	if s.MemoryScaling != nil {
		c.MemoryScaling = *s.MemoryScaling
	}
	c.ExcludeIDs = append(slices.Clip(c.ExcludeIDs), s.ExcludeIDs...)
	c.ExcludeIndexes = append(slices.Clip(c.ExcludeIndexes), s.ExcludeIndexes...)
	return c
}

// readNodeSettings reads the settings of a node from a file.
func readNodeSettings(path, node string) (nodeSettings, error) {
	f, err := os.Open(path)
	if err != nil {
		return nodeSettings{}, fmt.Errorf("node settings: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxNodeConfig+1))
	if err == nil && len(data) > maxNodeConfig {
		err = fmt.Errorf("more than %d bytes", maxNodeConfig)
	}
	var s nodeSettings
	if err == nil {
		s, err = parseNodeSettings(data, node)
	}
	if err != nil {
		return nodeSettings{}, fmt.Errorf("node settings %s: %w", path, err)
	}
	return s, nil
}

// parseNodeSettings finds the entry of a node, in JSON or YAML of the shape
// that HAMi's NVIDIA plugin reads too (pkg/device/nvidia, DevicePluginConfigs):
//
//	{"nodeconfig": [{"name": "node-1", "operatingmode": "partition", "computepartition": "cpx",
//	  "devicesplitcount": 4, "devicememoryscaling": 1.5,
//	  "filterdevices": {"uuid": ["08ff75a3-..."], "index": [7]}}]}
//
// An index counts the node's GPUs from 0 in order of PCI address, as in the
// register annotation. Keys may be in upper or lower case, and splitcount, memoryscaling and
// filterdevices' id are other names of their neighbours. Unlike there an
// unknown key is an error, in the entry of this node: another node's plugin
// complains about its own. A node without an entry has no settings.
func parseNodeSettings(data []byte, node string) (nodeSettings, error) {
	text, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nodeSettings{}, oneLine(err)
	}
	if string(text) == "null" { // an empty file
		return nodeSettings{}, nil
	}
	var entries []json.RawMessage
	if err := object(text, map[string]any{"nodeconfig": &entries}, true); err != nil {
		return nodeSettings{}, err
	}
	var own json.RawMessage
	for i, entry := range entries {
		var name string
		if err := object(entry, map[string]any{"name": &name}, false); err != nil {
			return nodeSettings{}, fmt.Errorf("nodeconfig[%d]: %w", i, err)
		}
		if name != node || name == "" {
			continue
		}
		if own != nil {
			return nodeSettings{}, fmt.Errorf("nodeconfig[%d]: a second entry of node %s", i, excerpt(node))
		}
		own = entry
	}
	if own == nil {
		return nodeSettings{}, nil
	}
	s, err := parseNodeEntry(own)
	if err != nil {
		return nodeSettings{}, fmt.Errorf("settings of node %s: %w", excerpt(node), err)
	}
	return s, nil
}

func parseNodeEntry(entry json.RawMessage) (nodeSettings, error) {
	var (
		s      nodeSettings
		name   string
		filter json.RawMessage
	)
	err := object(entry, map[string]any{
		"name": &name, "operatingmode": &s.OperatingMode, "computepartition": &s.ComputePartition,
		"devicesplitcount": &s.SplitCount, "splitcount": &s.SplitCount,
		"devicememoryscaling": &s.MemoryScaling, "memoryscaling": &s.MemoryScaling,
		"filterdevices": &filter,
	}, true)
	if err == nil {
		err = s.checkModes()
	}
	switch {
	case err != nil:
		return nodeSettings{}, err
	case s.MemoryScaling != nil && !(*s.MemoryScaling > 0 && *s.MemoryScaling <= math.MaxFloat32):
		return nodeSettings{}, fmt.Errorf("memory scaling %v: want a number above 0", *s.MemoryScaling)
	case filter == nil:
		return s, nil
	}
	err = object(filter, map[string]any{"uuid": &s.ExcludeIDs, "id": &s.ExcludeIDs, "index": &s.ExcludeIndexes}, true)
	if err != nil {
		return nodeSettings{}, fmt.Errorf("filterdevices: %w", err)
	}
	return s, nil
}

// checkModes refuses modes here, where the message can say what file has them.
func (s nodeSettings) checkModes() error {
	if m := s.OperatingMode; m != nil && *m != "" {
		if _, err := partition.ParseOperatingMode(*m); err != nil {
			return err
		}
	}
	if m := s.ComputePartition; m != nil && *m != "" {
		if _, err := partition.ParseComputePartition(*m); err != nil {
			return err
		}
	}
	return nil
}

// object decodes an object into one destination per key, given in lower case.
// Two keys of one destination are an error, and so are unknown keys if strict.
// null is the same as an absent key.
func object(data []byte, fields map[string]any, strict bool) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil || members == nil {
		return fmt.Errorf("want an object, found %s", excerpt(string(data)))
	}
	seen := make(map[any]string)
	for _, key := range slices.Sorted(maps.Keys(members)) {
		to, ok := fields[strings.ToLower(key)]
		if !ok && strict {
			return fmt.Errorf("unsupported key %s", excerpt(key))
		}
		if !ok {
			continue
		}
		if other, ok := seen[to]; ok {
			return fmt.Errorf("both %s and %s are given", excerpt(other), excerpt(key))
		}
		seen[to] = key
		if string(members[key]) == "null" {
			continue
		}
		if err := json.Unmarshal(members[key], to); err != nil {
			return fmt.Errorf("%s: want %s, found %s", key, wanted(to), excerpt(string(members[key])))
		}
	}
	return nil
}

// wanted names what a destination takes.
func wanted(to any) string {
	switch to.(type) {
	case *string, **string:
		return "a string"
	case **int:
		return "a whole number"
	case **float64:
		return "a number"
	case *[]string:
		return "a list of strings"
	case *[]uint:
		return "a list of whole numbers from 0"
	case *[]json.RawMessage:
		return "a list"
	}
	return "another value"
}

// oneLine joins the lines of an error of the YAML parser.
func oneLine(err error) error {
	return fmt.Errorf("%s", strings.Join(strings.Fields(err.Error()), " "))
}
