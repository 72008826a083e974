package partition

import (
	"fmt"
	"strconv"

	"github.com/Project-HAMi/hami-amd/annotations"
)

// OperatingMode is how a node offers its GPUs.
type OperatingMode string

const (
	// ModeCU registers each GPU as one soft device that is shared by compute
	// units and memory. It is the default, and what "" means.
	ModeCU OperatingMode = "cu"
	// ModePartition registers the compute partitions of the GPUs that have
	// them as hard devices, each granted whole.
	ModePartition OperatingMode = "partition"
)

// Names of the plugin's environment variables.
const (
	OperatingModeVariable    = "OPERATING_MODE"
	ComputePartitionVariable = "COMPUTE_PARTITION"
)

// Source says where the value of a setting comes from.
type Source string

// The sources, from the lowest precedence to the highest.
const (
	SourceDefault    Source = "default"
	SourceVariable   Source = "variable"
	SourceAnnotation Source = "node annotation"
)

// ParseOperatingMode reads "cu" or "partition" and nothing else.
func ParseOperatingMode(s string) (OperatingMode, error) {
	switch m := OperatingMode(s); m {
	case ModeCU, ModePartition:
		return m, nil
	}
	return "", fmt.Errorf("operating mode %s: want %q or %q", quoted(s), ModeCU, ModePartition)
}

// ResolveOperatingMode finds the operating mode of a node: cu by default, over
// it the OPERATING_MODE variable, over it the hami.io/amd-operating-mode
// annotation of the node. "" is a source that was not given.
//
// The variable belongs to whoever deploys the plugin, and a bad one is an
// error even if an annotation would win. The annotation belongs to whoever may
// patch the node: a bad one is reported in the notes, for the log and an event,
// and the next lower source decides.
func ResolveOperatingMode(variable, annotation string) (OperatingMode, Source, []string, error) {
	return resolve(setting[OperatingMode]{
		variable: OperatingModeVariable, key: annotations.OperatingModeKey,
		parse: ParseOperatingMode, fallback: ModeCU,
	}, variable, annotation)
}

// ParseComputePartition reads the name of a compute partition mode, in upper
// or lower case since AMD's tools write both.
func ParseComputePartition(s string) (ComputeMode, error) {
	if m, ok := parseComputeMode(s); ok {
		return m, nil
	}
	return "", fmt.Errorf("compute partition %s: want one of %q, %q, %q, %q or %q", quoted(s), SPX, DPX, TPX, QPX, CPX)
}

// ResolveComputePartition finds the compute partition mode that a node's idle
// GPUs are switched to at start, "" for none: nothing by default, over it the
// COMPUTE_PARTITION variable, over it the hami.io/amd-compute-partition
// annotation. Bad values are treated as in ResolveOperatingMode.
//
// The setting is one of partition mode. In cu mode a good value gives "" and a
// note, and a bad one is refused or reported all the same.
func ResolveComputePartition(mode OperatingMode, variable, annotation string) (ComputeMode, Source, []string, error) {
	to, source, notes, err := resolve(setting[ComputeMode]{
		variable: ComputePartitionVariable, key: annotations.ComputePartitionKey,
		parse: ParseComputePartition,
	}, variable, annotation)
	if err != nil || to == "" || mode == ModePartition {
		return to, source, notes, err
	}
	notes = append(notes, fmt.Sprintf("compute partition %q from the %s has no effect in operating mode %q", to, source, ModeCU))
	return "", SourceDefault, notes, nil
}

// setting is one setting that a variable and a node annotation can give.
type setting[T ~string] struct {
	variable, key string
	parse         func(string) (T, error)
	fallback      T
}

func resolve[T ~string](s setting[T], variable, annotation string) (T, Source, []string, error) {
	value, source := s.fallback, SourceDefault
	if variable != "" {
		v, err := s.parse(variable)
		if err != nil {
			return "", "", nil, fmt.Errorf("variable %s: %w", s.variable, err)
		}
		value, source = v, SourceVariable
	}
	if annotation == "" {
		return value, source, nil, nil
	}
	v, err := s.parse(annotation)
	if err != nil {
		used := strconv.Quote(string(value))
		if value == "" {
			used = "none"
		}
		note := fmt.Sprintf("node annotation %s: %v; using %s from the %s", s.key, err, used, source)
		return value, source, []string{note}, nil
	}
	return v, SourceAnnotation, nil, nil
}

// quoted shows text that somebody else chose, in a message: escaped and short.
func quoted(s string) string {
	const most = 64
	if len(s) <= most {
		return strconv.Quote(s)
	}
	return fmt.Sprintf("%q... (%d bytes)", s[:most], len(s))
}
