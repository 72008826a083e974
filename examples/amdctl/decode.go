package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/Project-HAMi/hami-amd/amd"
	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/cumask"
	"github.com/Project-HAMi/hami-amd/partition"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
)

func newDecode() *cobra.Command {
	keys := slices.Sorted(maps.Keys(decoders()))
	cmd := &cobra.Command{
		Use:   "decode KEY VALUE|-",
		Short: "Show what an annotation of HAMi or a CU mask says",
		Long: `decode reads the value of one annotation as strictly as the scheduler and the
device plugin do, and prints it as JSON. A value they would refuse is an error
that names the element and the field. "-" reads the value from standard input.
HSA_CU_MASK is the variable of a container; its CUs are counted.

Keys:
  ` + strings.Join(keys, "\n  "),
		Example: `  amdctl decode hami.io/amd-cu-allocated '{"08ff75a3-0000-1000-80da-82c12ef81b5d":"0-75"}'

  kubectl get pod p -o jsonpath='{.metadata.annotations.hami\.io/amd-devices-allocated}' |
    amdctl decode hami.io/amd-devices-allocated -

  kubectl exec p -- printenv HSA_CU_MASK | amdctl decode HSA_CU_MASK -`,
		Args: wantArguments("KEY", "VALUE"),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return keys, cobra.ShellCompDirectiveNoFileComp
		},
	}
	addFormat(cmd, "json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		key, value := args[0], args[1]
		decode, ok := decoders()[key]
		if !ok {
			return fmt.Errorf("decode %.80q: want a key such as %s or %s (see %s -h)", key, annotations.NodeRegisterKey, maskKey, cmd.CommandPath())
		}
		if value == "-" {
			// One more than fits, so that the decoder sees and refuses it.
			b, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), annotations.MaxBytes+2))
			if err != nil {
				return fmt.Errorf("standard input: %w", err)
			}
			value = strings.TrimSuffix(string(b), "\n")
		}
		answer, err := decode(value)
		if err != nil {
			if strings.Contains(err.Error(), key) {
				return err
			}
			return fmt.Errorf("%s: %w", key, err)
		}
		return printJSON(cmd.OutOrStdout(), answer)
	}
	return cmd
}

// decoders has one entry for each annotation; what it returns is the JSON that
// decode prints.
func decoders() map[string]func(string) (any, error) {
	return map[string]func(string) (any, error){
		maskKey: decodeMask,
		annotations.NodeRegisterKey: func(s string) (any, error) {
			devices, err := annotations.DecodeDevices(s)
			return append([]annotations.Device{}, devices...), err
		},
		annotations.ToAllocateKey:          decodePod,
		annotations.AllocatedKey:           decodePod,
		annotations.CUAllocatedKey:         decodeCUs,
		annotations.CUContainersKey:        decodeContainerCUs,
		annotations.NodeLockKey:            of(annotations.ParseNodeLock),
		annotations.DeviceCordonKey:        decodeCordon,
		annotations.VGPUTimeKey:            decodeTime,
		annotations.BindTimeKey:            decodeTime,
		annotations.BindPhaseKey:           of(annotations.ParseBindPhase),
		annotations.ScoringWeightsKey:      decodeWeights,
		annotations.VGPUNodeKey:            decodeNodeName,
		annotations.OperatingModeKey:       of(partition.ParseOperatingMode),
		annotations.ComputePartitionKey:    of(partition.ParseComputePartition),
		annotations.GPUSchedulerPolicyKey:  decodeList,
		annotations.NodeSchedulerPolicyKey: decodeList,
		annotations.UseTypeKey:             decodeList,
		annotations.NoUseTypeKey:           decodeList,
		annotations.UseUUIDKey:             decodeList,
		annotations.NoUseUUIDKey:           decodeList,
		amd.GPUIndexKey:                    decodeList,
		annotations.NUMABindKey:            decodeBool,
	}
}

func of[T any](parse func(string) (T, error)) func(string) (any, error) {
	return func(s string) (any, error) { return parse(s) }
}

func decodePod(s string) (any, error) {
	grants, err := annotations.DecodePod(s)
	containers := make([][]annotations.Grant, len(grants))
	for i := range grants {
		containers[i] = append([]annotations.Grant{}, grants[i]...)
	}
	return containers, err
}

func decodeCUs(s string) (any, error) {
	cus, err := annotations.DecodeCUs(s)
	return lists(cus), err
}

func decodeContainerCUs(s string) (any, error) {
	type container struct {
		IDs []string          `json:"ids"`
		CUs map[string]string `json:"cus"`
	}
	containers, err := annotations.DecodeContainerCUs(s)
	answer := make(map[string]container, len(containers))
	for name, c := range containers {
		answer[name] = container{IDs: c.IDs, CUs: lists(c.CUs)}
	}
	return answer, err
}

// lists is CU sets in their canonical form, by device.
func lists(sets map[string]cumask.Set) map[string]string {
	l := make(map[string]string, len(sets))
	for device, set := range sets {
		l[device] = set.String()
	}
	return l
}

func decodeCordon(s string) (any, error) {
	cordon, err := annotations.ParseCordon(s)
	return append([]string{}, slices.Sorted(maps.Keys(cordon))...), err
}

func decodeTime(s string) (any, error) {
	t, err := annotations.ParseTime(s)
	return t.UTC().Format(time.RFC3339), err
}

func decodeNodeName(s string) (any, error) {
	if why := validation.IsDNS1123Subdomain(s); len(why) > 0 {
		return nil, fmt.Errorf("node name %.64q: %s", s, why[0])
	}
	return s, nil
}

func decodeWeights(s string) (any, error) {
	w, err := annotations.ParseWeights(s)
	return struct {
		Slot   int32 `json:"slot"`
		Core   int32 `json:"core"`
		Memory int32 `json:"memory"`
	}{w.Slot, w.Core, w.Memory}, err
}

// maskKey is the variable with a container's CU masks.
const maskKey = "HSA_CU_MASK"

// decodeMask reads a container's masks as ROCm does. Devices are counted as the
// container sees them.
func decodeMask(s string) (any, error) {
	type mask struct {
		Device int    `json:"device"`
		CUs    string `json:"cus"`
		Count  int    `json:"count"`
	}
	masks, err := cumask.ParseHSAMask(s)
	answer := make([]mask, len(masks))
	for i, m := range masks {
		answer[i] = mask{m.Device, m.CUs.String(), m.CUs.Len()}
	}
	return answer, err
}

// decodeBool reads a truth as the scheduler does.
func decodeBool(s string) (any, error) {
	b, err := strconv.ParseBool(s)
	if err != nil {
		return nil, fmt.Errorf("want true or false, found %.64q", s)
	}
	return b, nil
}

// decodeList is a comma-separated list that users write by hand.
func decodeList(s string) (any, error) {
	if len(s) > annotations.MaxBytes {
		return nil, fmt.Errorf("%d bytes long, want at most %d", len(s), annotations.MaxBytes)
	}
	return append([]string{}, slices.Collect(annotations.Policies(s))...), nil
}
