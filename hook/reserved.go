package hook

import "strings"

// ReservedEnv are the variables that a container asking for AMD GPUs may not
// set in its spec: kubelet puts the spec's variables after the plugin's and
// the last value wins, so each of these would switch a limit or a mask off. A
// name that ends in * stands for every name with that prefix. The list is a
// fresh copy.
//
// Packages that may not import this one keep their own list; a test that
// imports both compares them.
func ReservedEnv() []string {
	return []string{
		"CUDA_VISIBLE_DEVICES",
		"GPU_DEVICE_ORDINAL",
		"HIP_DEVICE_MEMORY_*",
		"HIP_OVERSUBSCRIBE",
		"HIP_VISIBLE_DEVICES",
		"HSA_CU_MASK",
		"HSA_CU_MASK_SKIP_INIT",
		"ROCR_VISIBLE_DEVICES",
		"ROC_GLOBAL_CU_MASK",
	}
}

// IsReservedEnv reports whether name is covered by [ReservedEnv]. LD_AUDIT is
// not: a literal one is extended ([AppendAudit]), any other refused for a
// slice. Variable names are compared as the kernel passes them, by case.
func IsReservedEnv(name string) bool {
	for _, pattern := range ReservedEnv() {
		if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
			if strings.HasPrefix(name, prefix) {
				return true
			}
		} else if name == pattern {
			return true
		}
	}
	return false
}
