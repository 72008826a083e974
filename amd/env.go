package amd

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// TaskPriorityEnv is the variable the memory hook reads a container's queue
// priority from: 0 is high, anything above it low.
const TaskPriorityEnv = "AMD_TASK_PRIORITY"

// auditEnv makes the loader (ld.so(8)) load the memory hook.
const auditEnv = "LD_AUDIT"

// limiting are the variables by which a container is kept to its GPUs and its
// share of them. Kubelet appends the pod's own variables to the plugin's and the
// last one of a name wins, so a pod that sets one would lift its limits.
var limiting = [...]string{
	"ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL",
	"HSA_CU_MASK", "HSA_CU_MASK_SKIP_INIT", "ROC_GLOBAL_CU_MASK", "HIP_OVERSUBSCRIBE",
}

// limitingPrefix starts the names of the memory limits, one for each device, and
// of the file they are shared in.
const limitingPrefix = "HIP_DEVICE_MEMORY_"

// Overrides reports whether a container's variable of this name would take the
// place of one the device plugin sets to keep the container to its share.
func Overrides(name string) bool {
	return strings.HasPrefix(name, limitingPrefix) || slices.Contains(limiting[:], name)
}

// checkEnv refuses variables that would lift the limits of a container that
// asks for GPUs. note is something the operator may want to know, or "".
func (d *Devices) checkEnv(ctr *corev1.Container, r Request) (note string, err error) {
	for i := range ctr.Env {
		e := &ctr.Env[i]
		if Overrides(e.Name) {
			return "", &InvalidRequestError{
				Container: ctr.Name, Resource: fmt.Sprintf("env %.64s", e.Name),
				Reason: "want it unset: the device plugin sets it, and the container's own value would switch the GPU limits off",
			}
		}
		if e.Name == auditEnv && e.ValueFrom != nil && !r.Whole() {
			return "", &InvalidRequestError{
				Container: ctr.Name, Resource: "env " + auditEnv,
				Reason: "want a literal value, which the memory hook can be added to, found a reference",
			}
		}
	}
	if len(ctr.EnvFrom) == 0 || r.Whole() {
		return "", nil
	}
	const unseen = "could set variables that switch the GPU limits off, and cannot be looked into"
	if d.config.StrictAdmission {
		return "", &InvalidRequestError{
			Container: ctr.Name, Resource: "envFrom",
			Reason: "want none in a container with a slice of a GPU: it " + unseen,
		}
	}
	return fmt.Sprintf("container %q: envFrom %s", ctr.Name, unseen), nil
}

// extendAudit adds the memory hook to the LD_AUDIT a slice sets itself, since
// its value takes the place of the plugin's. One that has it already stays as it
// is.
func (d *Devices) extendAudit(ctr *corev1.Container, r Request) {
	if r.Whole() {
		return
	}
	for i := range ctr.Env {
		e := &ctr.Env[i]
		switch {
		case e.Name != auditEnv || slices.Contains(strings.Split(e.Value, ":"), d.config.HookPath):
		case e.Value == "":
			e.Value = d.config.HookPath
		default:
			e.Value += ":" + d.config.HookPath
		}
	}
}

// setPriority makes the resource the one source of the variable.
func setPriority(ctr *corev1.Container, priority int32) {
	set := corev1.EnvVar{Name: TaskPriorityEnv, Value: fmt.Sprint(priority)}
	named := func(e corev1.EnvVar) bool { return e.Name == TaskPriorityEnv }
	i := slices.IndexFunc(ctr.Env, named)
	if i < 0 {
		ctr.Env = append(ctr.Env, set)
		return
	}
	ctr.Env[i] = set
	ctr.Env = append(ctr.Env[:i+1], slices.DeleteFunc(ctr.Env[i+1:], named)...)
}
