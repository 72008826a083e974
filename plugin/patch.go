package plugin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/Project-HAMi/hami-amd/annotations"
)

// jsonPatch is a JSON Patch (RFC 6902). The API server applies all of its
// operations or none, and answers 422 when a test fails: that is what guards
// every write here, since the objects also belong to others and a
// resourceVersion would fail on any of their changes.
type jsonPatch []patchOp

type patchOp struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value,omitempty"`
}

// annotationPath is the JSON pointer (RFC 6901) of an annotation.
func annotationPath(key string) string {
	return "/metadata/annotations/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
}

func quoted(s string) json.RawMessage {
	b, err := json.Marshal(s)
	if err != nil { // a string always has a JSON form
		return json.RawMessage(`""`)
	}
	return b
}

// testUID makes the patch one of this pod and not of a later one of its name.
func testUID(uid types.UID) patchOp {
	return patchOp{Op: "test", Path: "/metadata/uid", Value: quoted(string(uid))}
}

func testPhase(phase corev1.PodPhase) patchOp {
	op := patchOp{Op: "test", Path: "/status/phase", Value: json.RawMessage("null")}
	if phase != "" {
		op.Value = quoted(string(phase))
	}
	return op
}

func testAnnotation(key, value string) patchOp {
	return patchOp{Op: "test", Path: annotationPath(key), Value: quoted(value)}
}

// testNoAnnotation passes where the annotation is absent: the API server
// compares a path that is not there as null.
func testNoAnnotation(key string) patchOp {
	return patchOp{Op: "test", Path: annotationPath(key), Value: json.RawMessage("null")}
}

// setAnnotation also replaces. The object must have some annotation already,
// or there is nothing to add to.
func setAnnotation(key, value string) patchOp {
	return patchOp{Op: "add", Path: annotationPath(key), Value: quoted(value)}
}

func removeAnnotation(key string) patchOp {
	return patchOp{Op: "remove", Path: annotationPath(key)}
}

// bytes is the patch as it is sent.
func (p jsonPatch) bytes() ([]byte, error) {
	b, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encode patch: %w", err)
	}
	return b, nil
}

// servedValues is what an Allocate call writes on its pod.
type servedValues struct {
	uid types.UID
	// phase is the pod's as it was read: a pod that has ended since is not the
	// one kubelet asks for.
	phase corev1.PodPhase
	// before and after are hami.io/amd-devices-to-allocate.
	before, after string
	// cus and containers are hami.io/amd-cu-allocated and
	// hami.io/amd-cu-containers.
	cus, containers string
	// last is set when nothing is left to allocate.
	last bool
}

// patch writes the values unless somebody else has served the pod, or the
// scheduler has granted it something else, since it was read.
func (s servedValues) patch() jsonPatch {
	p := jsonPatch{
		testUID(s.uid),
		testPhase(s.phase),
		testAnnotation(annotations.ToAllocateKey, s.before),
		setAnnotation(annotations.CUAllocatedKey, s.cus),
		setAnnotation(annotations.CUContainersKey, s.containers),
		setAnnotation(annotations.ToAllocateKey, s.after),
	}
	if s.last {
		p = append(p, setAnnotation(annotations.BindPhaseKey, string(annotations.BindSuccess)))
	}
	return p
}

// in tells whether a pod carries the values: whether the patch took effect.
func (s servedValues) in(uid types.UID, a map[string]string) bool {
	return uid == s.uid &&
		a[annotations.ToAllocateKey] == s.after &&
		a[annotations.CUAllocatedKey] == s.cus &&
		a[annotations.CUContainersKey] == s.containers &&
		(!s.last || a[annotations.BindPhaseKey] == string(annotations.BindSuccess))
}

// failedPatch marks the pod as one the node has refused.
func failedPatch(uid types.UID) jsonPatch {
	return jsonPatch{testUID(uid), setAnnotation(annotations.BindPhaseKey, string(annotations.BindFailed))}
}

// releasePatch removes the node lock if it is still this one.
func releasePatch(lock string) jsonPatch {
	return jsonPatch{testAnnotation(annotations.NodeLockKey, lock), removeAnnotation(annotations.NodeLockKey)}
}

// statusCode is the HTTP status of the API server's refusal, 0 if err is not
// one: then nobody knows whether the server has seen the request.
func statusCode(err error) int {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return int(status.Status().Code)
	}
	return 0
}

// testFailed tells whether a patch was refused because of what the object
// holds.
func testFailed(err error) bool { return statusCode(err) == http.StatusUnprocessableEntity }

// transient tells whether the same request may succeed a moment later. The
// API server answers 409 when it could not apply a patch for want of luck, and
// 500 with "etcd" troubles of all kinds.
func transient(err error) bool {
	switch code := statusCode(err); {
	case code == 0:
		return true
	case code >= http.StatusInternalServerError:
		return true
	default:
		return code == http.StatusConflict || code == http.StatusTooManyRequests || code == http.StatusRequestTimeout
	}
}
