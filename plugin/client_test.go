package plugin

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
)

// cannedServer answers reads of one node and of its pods, without a network, so
// that a test may run in a bubble of package synctest.
type cannedServer struct {
	node *corev1.Node
	pods []corev1.Pod

	mu     sync.Mutex
	paths  map[string]int                 // calls by path
	refuse func(path string, n int) error // the n-th call of a path, from 1; nil is never
}

func newCannedServer(node *corev1.Node, pods ...corev1.Pod) *cannedServer {
	return &cannedServer{node: node, pods: pods, paths: make(map[string]int)}
}

const (
	nodePath = "/api/v1/nodes/node-1"
	podsPath = "/api/v1/pods"
)

// fail makes the first n calls of a path end in an error: the API server's
// where it is one of those, else a connection that fails.
func (s *cannedServer) fail(path string, n int, err error) {
	s.refuse = func(p string, number int) error {
		if p == path && number <= n {
			return err
		}
		return nil
	}
}

func (s *cannedServer) calls(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.paths[path]
}

// RoundTrip implements http.RoundTripper.
func (s *cannedServer) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paths[r.URL.Path]++
	var err error
	if s.refuse != nil {
		err = s.refuse(r.URL.Path, s.paths[r.URL.Path])
	}
	var refused apierrors.APIStatus
	switch {
	case errors.As(err, &refused):
		status := refused.Status()
		status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
		return answerOf(r, int(status.Code), status)
	case err != nil:
		return nil, err
	case r.URL.Path == podsPath:
		return answerOf(r, http.StatusOK, corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Items: s.pods})
	case s.node != nil && r.URL.Path == nodePath:
		node := *s.node
		node.TypeMeta = metav1.TypeMeta{Kind: "Node", APIVersion: "v1"}
		return answerOf(r, http.StatusOK, node)
	}
	return nil, errors.New("nothing at " + r.URL.Path)
}

func answerOf(r *http.Request, code int, object any) (*http.Response, error) {
	content, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: code, Request: r, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader(content)),
	}, nil
}

func (s *cannedServer) client(tb testing.TB) rest.Interface {
	tb.Helper()
	client, err := coreClient(&rest.Config{Host: "http://server.invalid", QPS: -1, Transport: s})
	if err != nil {
		tb.Fatal(err)
	}
	return client
}

func TestNewClient(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	write := func(content string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	if _, err := NewClient(""); err == nil || !strings.HasPrefix(err.Error(), "client for the API server: ") {
		t.Errorf("outside of a cluster: error %v", err)
	}
	write("clusters: 3")
	if _, err := NewClient(file); err == nil || !strings.HasPrefix(err.Error(), "client for the API server: ") {
		t.Errorf("a broken file: error %v", err)
	}
	s := newAPIServer(t, nodeObject(testNode, map[string]string{"some": "thing"}))
	write(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}], users: [{name: u, user: {}}],
clusters: [{name: c, cluster: {server: "` + s.server.URL + `"}}]}`)
	client, err := NewClient(file)
	if err != nil {
		t.Fatal(err)
	}
	node, err := (&cluster{client: client, node: testNode}).readNode(t.Context())
	if err != nil || node.Annotations["some"] != "thing" {
		t.Errorf("node %v, error %v", node, err)
	}
	if calls := s.reset(); len(calls) != 1 || calls[0].agent != "hami-amd-device-plugin" {
		t.Errorf("calls %v", calls)
	}
	_, err = (&cluster{client: client, node: "other"}).readNode(t.Context())
	if !apierrors.IsNotFound(err) {
		t.Errorf("another node: error %v", err)
	}
}

// The clientset of client-go's fake package has no way to make requests.
func TestNewRefusesTheFakeClientset(t *testing.T) {
	_, err := New(Config{NodeName: "node-1"}, Deps{Client: fake.NewClientset().CoreV1().RESTClient()})
	if err == nil || err.Error() != "no client for the API server: want one, except in standalone mode" {
		t.Errorf("error %v", err)
	}
}
