package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/Project-HAMi/hami-amd/annotations"
)

// This file holds what the plugin's protocol relies on in the API server.

func newClient(t *testing.T, access *rest.Config) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(access)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// lockedNode creates a node with a node lock and removes it after the test.
func lockedNode(t *testing.T, client kubernetes.Interface, lock string) *corev1.Node {
	t.Helper()
	node, err := client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "facts-", Annotations: map[string]string{annotations.NodeLockKey: lock}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.CoreV1().Nodes().Delete(cleanupContext(t), node.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	return node
}

const lockValue = "2026-08-21T08:20:39Z,default,train-0"

func TestMergePatchWithStaleResourceVersionConflicts(t *testing.T) {
	client := newClient(t, control.Admin())
	nodes := client.CoreV1().Nodes()
	node := lockedNode(t, client, lockValue)

	// Only the status moves, as with a heartbeat.
	_, err := nodes.Patch(t.Context(), node.Name, types.MergePatchType,
		[]byte(`{"status":{"capacity":{"amd.com/gpu":"8"}}}`), metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatal(err)
	}
	patch := fmt.Sprintf(`{"metadata":{"resourceVersion":%q,"annotations":{%q:null}}}`, node.ResourceVersion, annotations.NodeLockKey)
	_, err = nodes.Patch(t.Context(), node.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if !apierrors.IsConflict(err) {
		t.Errorf("patch with a stale resourceVersion: %v, want a conflict (409)", err)
	}
	got, err := nodes.Get(t.Context(), node.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Annotations[annotations.NodeLockKey] != lockValue {
		t.Errorf("lock after the refused patch is %q, want %q", got.Annotations[annotations.NodeLockKey], lockValue)
	}
}

func TestMergePatchWithWrongUIDIsInvalid(t *testing.T) {
	client := newClient(t, control.Admin())
	node := lockedNode(t, client, lockValue)
	_, err := client.CoreV1().Nodes().Patch(t.Context(), node.Name, types.MergePatchType,
		[]byte(`{"metadata":{"uid":"another","annotations":{"a":"b"}}}`), metav1.PatchOptions{})
	if !apierrors.IsInvalid(err) {
		t.Errorf("patch with another uid: %v, want invalid (422)", err)
	}
}

func TestJSONPatchTests(t *testing.T) {
	client := newClient(t, control.Admin())
	const path = "/metadata/annotations/hami.io~1mutex.lock"
	tests := map[string]struct {
		patch   string // %s is the node's uid
		refused bool
		lock    string // afterwards
	}{
		"lock and uid as expected": {
			patch: `[{"op":"test","path":"/metadata/uid","value":"%s"},{"op":"test","path":"` + path + `","value":"` + lockValue + `"},{"op":"remove","path":"` + path + `"}]`,
		},
		"another lock": {
			patch:   `[{"op":"test","path":"` + path + `","value":"2026-08-21T08:20:39Z,default,train-1"},{"op":"remove","path":"` + path + `"}]`,
			refused: true, lock: lockValue,
		},
		"another uid": {
			patch:   `[{"op":"test","path":"/metadata/uid","value":"another"},{"op":"remove","path":"` + path + `"}]`,
			refused: true, lock: lockValue,
		},
		"annotation that is not there": {
			patch:   `[{"op":"test","path":"/metadata/annotations/absent","value":"x"},{"op":"remove","path":"` + path + `"}]`,
			refused: true, lock: lockValue,
		},
		"test for absence by null": {
			patch: `[{"op":"test","path":"/metadata/annotations/absent","value":null},{"op":"remove","path":"` + path + `"}]`,
		},
		"removal of what is not there": {
			patch:   `[{"op":"remove","path":"/metadata/annotations/absent"},{"op":"remove","path":"` + path + `"}]`,
			refused: true, lock: lockValue,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			node := lockedNode(t, client, lockValue)
			patch := strings.ReplaceAll(tt.patch, "%s", string(node.UID))
			_, err := client.CoreV1().Nodes().Patch(t.Context(), node.Name, types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
			if tt.refused && !apierrors.IsInvalid(err) {
				t.Errorf("error is %v, want invalid (422)", err)
			}
			if !tt.refused && err != nil {
				t.Error(err)
			}
			got, err := client.CoreV1().Nodes().Get(t.Context(), node.Name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if got.Annotations[annotations.NodeLockKey] != tt.lock {
				t.Errorf("lock is %q, want %q", got.Annotations[annotations.NodeLockKey], tt.lock)
			}
		})
	}
}

// All annotations of an object together are limited, which bounds the register
// annotation of a node with 64 partitions.
func TestAnnotationsAreLimited(t *testing.T) {
	client := newClient(t, control.Admin())
	node := lockedNode(t, client, lockValue)
	const limit = 262144
	key := annotations.NodeRegisterKey
	for _, over := range []int{0, 1} {
		room := limit - len(annotations.NodeLockKey) - len(lockValue) - len(key) + over
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"annotations": map[string]string{key: string(bytes.Repeat([]byte("x"), room))}}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.CoreV1().Nodes().Patch(t.Context(), node.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		if (over == 0 && err != nil) || (over == 1 && !apierrors.IsInvalid(err)) {
			t.Errorf("annotations of %d bytes: %.200v", limit+over, err)
		}
	}
}

const roleOfPlugin = `
# A comment alone is no object.
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: NAMESPACE}
rules:
- {apiGroups: [""], resources: [nodes], verbs: [get, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: NAMESPACE}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: NAMESPACE}
subjects:
- {kind: ServiceAccount, namespace: NAMESPACE, name: plugin}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {a: b}
`

func TestServiceAccountMayDoWhatItsRoleSays(t *testing.T) {
	admin := newClient(t, control.Admin())
	ns := newNamespace(t, admin)
	node := lockedNode(t, admin, lockValue)
	access, err := control.ServiceAccount(t.Context(), ns, "plugin")
	if err != nil {
		t.Fatal(err)
	}
	client := newClient(t, access)
	get := func() error {
		_, err := client.CoreV1().Nodes().Get(t.Context(), node.Name, metav1.GetOptions{})
		return err
	}
	patch := func(subresources ...string) error {
		_, err := client.CoreV1().Nodes().Patch(t.Context(), node.Name, types.MergePatchType,
			[]byte(`{"metadata":{"annotations":{"a":"b"}}}`), metav1.PatchOptions{}, subresources...)
		return err
	}
	if err := get(); !apierrors.IsForbidden(err) {
		t.Errorf("get without a role: %v, want forbidden", err)
	}

	if err := control.Apply(t.Context(), ns, strings.ReplaceAll(roleOfPlugin, "NAMESPACE", ns)); err != nil {
		t.Fatal(err)
	}
	// The authorizer sees new roles through a watch.
	eventually(t, "get with a role", get)
	if err := patch(); err != nil {
		t.Errorf("patch with a role: %v", err)
	}
	if err := patch("status"); !apierrors.IsForbidden(err) {
		t.Errorf("patch of nodes/status, which the role leaves out: %v, want forbidden", err)
	}
}

func TestApplyIsStrict(t *testing.T) {
	client := newClient(t, control.Admin())
	ns := newNamespace(t, client)
	for name, document := range map[string]string{
		"unknown field": "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, date: {}}",
		"unknown kind":  "{apiVersion: v1, kind: ConfigMop, metadata: {name: a}}",
		"no name":       "{apiVersion: v1, kind: ConfigMap}",
		"no YAML":       "a: b: c",
	} {
		t.Run(name, func(t *testing.T) {
			if err := control.Apply(t.Context(), ns, document); err == nil {
				t.Error("accepted")
			}
		})
	}
	document := "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {k: v%d}}"
	for i := range 2 {
		if err := control.Apply(t.Context(), ns, fmt.Sprintf(document, i)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := client.CoreV1().ConfigMaps(ns).Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil || got.Data["k"] != "v1" {
		t.Errorf("applied object is %v, %v", got.Data, err)
	}
}

func TestAPIServerOutages(t *testing.T) {
	ctx := testContext(t)
	client := newClient(t, control.Admin())
	node := lockedNode(t, client, lockValue)

	stopAPIServer(t)
	_, err := client.CoreV1().Nodes().Get(ctx, node.Name, metav1.GetOptions{})
	if err == nil || apierrors.ReasonForError(err) != metav1.StatusReasonUnknown {
		t.Errorf("get while the API server is stopped: %v, want no answer", err)
	}
	if _, err := control.FreezeAPIServer(); err == nil {
		t.Error("a stopped API server was frozen")
	}
	if err := control.StartAPIServer(ctx); err != nil {
		t.Fatal(err)
	}
	got, err := client.CoreV1().Nodes().Get(ctx, node.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got.UID != node.UID || got.ResourceVersion != node.ResourceVersion {
		t.Errorf("node after the outage is %s at %s, want %s at %s", got.UID, got.ResourceVersion, node.UID, node.ResourceVersion)
	}

	thaw, err := control.FreezeAPIServer()
	if err != nil {
		t.Fatal(err)
	}
	answer := make(chan error, 1)
	go func() {
		_, err := client.CoreV1().Nodes().Get(ctx, node.Name, metav1.GetOptions{})
		answer <- err
	}()
	select {
	case err := <-answer:
		t.Errorf("get while the API server is frozen: %v, want no answer", err)
		answer <- err
	case <-time.After(200 * time.Millisecond):
	}
	if err := thaw(); err != nil {
		t.Fatal(err)
	}
	if err := <-answer; err != nil {
		t.Errorf("get that waited for the API server: %v", err)
	}
}

// stopAPIServer stops the shared API server, at most for the rest of the test.
func stopAPIServer(t *testing.T) {
	t.Helper()
	control.StopAPIServer()
	t.Cleanup(func() {
		if err := control.StartAPIServer(cleanupContext(t)); err != nil {
			t.Error(err)
		}
	})
}

// eventually calls check until it returns nil.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	ctx := testContext(t)
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
