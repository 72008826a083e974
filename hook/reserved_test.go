package hook

import "testing"

func TestIsReservedEnv(t *testing.T) {
	reserved := []string{
		"ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL",
		"HSA_CU_MASK", "HSA_CU_MASK_SKIP_INIT", "ROC_GLOBAL_CU_MASK", "HIP_OVERSUBSCRIBE",
		"HIP_DEVICE_MEMORY_LIMIT", "HIP_DEVICE_MEMORY_LIMIT_0", "HIP_DEVICE_MEMORY_LIMIT_63",
		"HIP_DEVICE_MEMORY_SHARED_CACHE", "HIP_DEVICE_MEMORY_",
	}
	free := []string{
		"", "LD_AUDIT", "LIBHIP_LOG_LEVEL", "HIP_DEVICE_MEMORY", "HIP_PATH", "hsa_cu_mask",
		"HSA_CU_MASK_", "MY_HSA_CU_MASK", "NVIDIA_VISIBLE_DEVICES", "AMD_TASK_PRIORITY",
	}
	for _, name := range reserved {
		if !IsReservedEnv(name) {
			t.Errorf("%q may be set by a pod", name)
		}
	}
	for _, name := range free {
		if IsReservedEnv(name) {
			t.Errorf("%q may not be set by a pod", name)
		}
	}
}

// Everything an injection sets and a pod must not override is reserved, except
// the two that are merged or harmless.
func TestInjectedNamesAreReserved(t *testing.T) {
	o := options()
	o.LogLevel, o.Oversubscribe = 1, true
	got, err := Inject([]Device{{LimitMiB: 1}, {LimitMiB: 2}}, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range got.Env {
		if v.Name != AuditEnv && v.Name != LogLevelEnv && !IsReservedEnv(v.Name) {
			t.Errorf("%s is injected but not reserved", v.Name)
		}
	}
}

func TestReservedEnvIsACopy(t *testing.T) {
	ReservedEnv()[0] = "changed"
	if got := ReservedEnv()[0]; got != "CUDA_VISIBLE_DEVICES" {
		t.Errorf("ReservedEnv()[0] = %q after a caller wrote to its copy", got)
	}
}
