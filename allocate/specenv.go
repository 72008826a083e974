package allocate

import (
	"fmt"

	"github.com/Project-HAMi/hami-amd/hook"
)

// checkSpecEnv refuses a slice whose spec would undo it. Kubelet puts the
// spec's variables after ours and the last value wins. The webhook refuses
// such pods too, but it can be bypassed.
func checkSpecEnv(spec PodContainer, strict bool) (notes []string, err error) {
	var audit *SpecEnv
	for i, e := range spec.Env {
		if hook.IsReservedEnv(e.Name) {
			return nil, fmt.Errorf("%w: env %q may not be set", ErrEnvOverride, e.Name)
		}
		if e.Name == hook.AuditEnv {
			audit = &spec.Env[i]
		}
	}
	if audit != nil && !spec.HookLeftOut && (audit.Ref || !hook.LoadsHook(audit.Value)) {
		return nil, fmt.Errorf("%w: env %q has to be a literal list that names %s, have %s",
			ErrEnvOverride, audit.Name, hook.ContainerLibrary, describe(*audit))
	}
	if !spec.EnvFrom {
		return nil, nil
	}
	if strict {
		return nil, fmt.Errorf("%w: envFrom may set variables that cannot be seen here", ErrEnvOverride)
	}
	return []string{fmt.Sprintf("container %q: envFrom may override the limits of its GPU slice", spec.Name)}, nil
}

func describe(e SpecEnv) string {
	if e.Ref {
		return "a reference"
	}
	return fmt.Sprintf("%q", e.Value)
}

// specAudit is the LD_AUDIT of the spec, which the webhook has extended to
// load the hook as well. The last entry of a name is the one that counts.
func specAudit(spec PodContainer) string {
	value := ""
	for _, e := range spec.Env {
		if e.Name == hook.AuditEnv {
			value = e.Value
		}
	}
	return value
}
