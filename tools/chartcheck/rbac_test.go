package chartcheck

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
)

// The plugin may do this and nothing else.
func TestRBAC(t *testing.T) {
	rule := func(resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, Verbs: verbs}
	}
	nodes := rule("nodes", "get", "patch")
	status := rule("nodes/status", "patch")
	pods := rule("pods", "get", "list", "watch", "patch")
	events := rule("events", "create")

	for name, test := range map[string]struct {
		set  []string
		want []rbacv1.PolicyRule
	}{
		"capacity would be cleaned up": {nil,
			[]rbacv1.PolicyRule{nodes, status, pods, events}},
		"capacity is reported": {[]string{"dp.reportNodeCapacity=true", "dp.cleanNodeCapacity=false"},
			[]rbacv1.PolicyRule{nodes, status, pods, events}},
		"capacity is nobody's business": {[]string{"dp.cleanNodeCapacity=false"},
			[]rbacv1.PolicyRule{nodes, pods, events}},
	} {
		t.Run(name, func(t *testing.T) {
			role := find[*rbacv1.ClusterRole](t, set(t, test.set...))
			if diff := cmp.Diff(test.want, role.Rules); diff != "" {
				t.Errorf("rules (-want +got):\n%s", diff)
			}
			binding := find[*rbacv1.ClusterRoleBinding](t, set(t, test.set...))
			if want := (rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: role.Name}); binding.RoleRef != want {
				t.Errorf("the binding is to %v, want %v", binding.RoleRef, want)
			}
			want := []rbacv1.Subject{{Kind: "ServiceAccount", Name: "amd-gpu-device-plugin", Namespace: "kube-system"}}
			if diff := cmp.Diff(want, binding.Subjects); diff != "" {
				t.Errorf("subjects (-want +got):\n%s", diff)
			}
		})
	}
}
