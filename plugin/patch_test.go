package plugin

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/Project-HAMi/hami-amd/annotations"
)

func TestServedPatchText(t *testing.T) {
	values := servedValues{
		uid: "u", phase: corev1.PodPending, before: "A,AMD X,1,8:;", after: ";",
		cus: `{"A":"0-7"}`, containers: `{"c":{"ids":["i"],"cus":{"A":"0-7"}}}`, last: true,
	}
	got, err := values.patch().bytes()
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"op":"test","path":"/metadata/uid","value":"u"},` +
		`{"op":"test","path":"/status/phase","value":"Pending"},` +
		`{"op":"test","path":"/metadata/annotations/hami.io~1amd-devices-to-allocate","value":"A,AMD X,1,8:;"},` +
		`{"op":"add","path":"/metadata/annotations/hami.io~1amd-cu-allocated","value":"{\"A\":\"0-7\"}"},` +
		`{"op":"add","path":"/metadata/annotations/hami.io~1amd-cu-containers","value":"{\"c\":{\"ids\":[\"i\"],\"cus\":{\"A\":\"0-7\"}}}"},` +
		`{"op":"add","path":"/metadata/annotations/hami.io~1amd-devices-to-allocate","value":";"},` +
		`{"op":"add","path":"/metadata/annotations/hami.io~1bind-phase","value":"success"}]`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("patch (-want +got):\n%s", diff)
	}
	if got, want := annotationPath("a~/b"), "/metadata/annotations/a~0~1b"; got != want {
		t.Errorf("path %q, want %q", got, want)
	}
}

// TestPatchesAgainstAServer sends each patch to an API server that holds what
// it was made for, and one that holds something else.
func TestPatchesAgainstAServer(t *testing.T) {
	const lock = "2026-08-21T08:20:39Z,ns,p"
	values := servedValues{uid: "u", phase: corev1.PodPending, before: "x;", after: ";", cus: "{}", containers: "{}"}
	pod := func(edit func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u", Annotations: map[string]string{
				annotations.ToAllocateKey: "x;", annotations.CUAllocatedKey: `{"old":"1"}`,
			}},
			Status: corev1.PodStatus{Phase: corev1.PodPending},
		}
		edit(p)
		return p
	}
	as := func(*corev1.Pod) {}
	for name, tt := range map[string]struct {
		patch jsonPatch
		pod   *corev1.Pod
		want  int // status, 0 for success
	}{
		"served":                 {patch: values.patch(), pod: pod(as)},
		"served, another pod":    {patch: values.patch(), pod: pod(func(p *corev1.Pod) { p.UID = "v" }), want: 422},
		"served, already":        {patch: values.patch(), pod: pod(func(p *corev1.Pod) { p.Annotations[annotations.ToAllocateKey] = ";" }), want: 422},
		"served, nothing there":  {patch: values.patch(), pod: pod(func(p *corev1.Pod) { p.Annotations = nil }), want: 422},
		"served, ended":          {patch: values.patch(), pod: pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), want: 422},
		"failed":                 {patch: failedPatch("u"), pod: pod(as)},
		"failed, another pod":    {patch: failedPatch("v"), pod: pod(as), want: 422},
		"absent annotation":      {patch: jsonPatch{testNoAnnotation("k"), setAnnotation("k", "v")}, pod: pod(as)},
		"absent, but it is not":  {patch: jsonPatch{testNoAnnotation(annotations.ToAllocateKey)}, pod: pod(as), want: 422},
		"remove what is absent":  {patch: jsonPatch{removeAnnotation("k")}, pod: pod(as), want: 422},
		"absent phase":           {patch: jsonPatch{testPhase("")}, pod: pod(func(p *corev1.Pod) { p.Status.Phase = "" })},
		"absent phase, there is": {patch: jsonPatch{testPhase("")}, pod: pod(as), want: 422},
	} {
		t.Run(name, func(t *testing.T) {
			s := newAPIServer(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: testNode}})
			s.put(tt.pod)
			c := &cluster{client: s.client("test"), node: testNode, request: defaultTiming().request}
			if err := c.patchPod(t.Context(), "ns", "p", tt.patch); statusCode(err) != tt.want || (err == nil) != (tt.want == 0) {
				t.Errorf("patch = %v, want status %d", err, tt.want)
			}
		})
	}
	for name, tt := range map[string]struct {
		have map[string]string
		want int
	}{
		"our lock":      {have: map[string]string{annotations.NodeLockKey: lock, "other": "x"}},
		"another's":     {have: map[string]string{annotations.NodeLockKey: "2026-08-21T08:20:40Z,ns,p"}, want: 422},
		"no lock":       {have: map[string]string{"other": "x"}, want: 422},
		"nothing there": {want: 422},
	} {
		t.Run("release "+name, func(t *testing.T) {
			s := newAPIServer(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: testNode, Annotations: tt.have}})
			c := &cluster{client: s.client("test"), node: testNode, request: defaultTiming().request}
			if err := c.patchNode(t.Context(), releasePatch(lock)); statusCode(err) != tt.want {
				t.Errorf("patch = %v, want status %d", err, tt.want)
			}
			if _, locked := s.currentNode().Annotations[annotations.NodeLockKey]; tt.want == 0 && locked {
				t.Error("the lock stays")
			}
		})
	}
}

func TestServedValuesInAPod(t *testing.T) {
	s := servedValues{uid: "u", after: ";", cus: "{}", containers: "{}", last: true}
	all := map[string]string{
		annotations.ToAllocateKey: ";", annotations.CUAllocatedKey: "{}",
		annotations.CUContainersKey: "{}", annotations.BindPhaseKey: "success",
	}
	if !s.in("u", all) || s.in("v", all) {
		t.Error("want the values in pod u and in no other")
	}
	for key := range all {
		other := make(map[string]string)
		for k, v := range all {
			if k != key {
				other[k] = v
			}
		}
		if s.in("u", other) {
			t.Errorf("without %s: want the values not to be there", key)
		}
	}
}

func TestWhatAnErrorMeans(t *testing.T) {
	resource := corev1.Resource("pods")
	for name, tt := range map[string]struct {
		err                  error
		transient, failed    bool
		settled, transported bool
	}{
		"none":          {settled: true, transported: true},
		"no answer":     {err: errors.New("connection reset"), transient: true, transported: true},
		"no time left":  {err: context.DeadlineExceeded, transient: true, transported: true},
		"test failed":   {err: apierrors.NewGenericServerResponse(422, "patch", resource, "p", "", 0, false), failed: true, settled: true},
		"gone":          {err: apierrors.NewNotFound(resource, "p"), settled: true},
		"forbidden":     {err: apierrors.NewForbidden(resource, "p", nil)},
		"conflict":      {err: apierrors.NewConflict(resource, "p", nil), transient: true},
		"overloaded":    {err: apierrors.NewTooManyRequests("", 1), transient: true},
		"server broken": {err: apierrors.NewInternalError(errors.New("etcd")), transient: true},
		"server away":   {err: apierrors.NewServiceUnavailable(""), transient: true},
		"server slow":   {err: apierrors.NewTimeoutError("", 1), transient: true},
		"wrapped":       {err: fmt.Errorf("patch: %w", apierrors.NewNotFound(resource, "p")), settled: true},
	} {
		if tt.err != nil && transient(tt.err) != tt.transient {
			t.Errorf("%s: transient %v, want %v", name, !tt.transient, tt.transient)
		}
		if testFailed(tt.err) != tt.failed || settled(tt.err) != tt.settled || (statusCode(tt.err) == 0) != tt.transported {
			t.Errorf("%s: test failed %v, settled %v, status %d", name, testFailed(tt.err), settled(tt.err), statusCode(tt.err))
		}
	}
}
