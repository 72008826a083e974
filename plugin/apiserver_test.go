package plugin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// apiServer is as much of an API server as the plugin talks to: one node, its
// pods and events, over HTTP. Patches go through the library the real one
// uses, so that test operations, null for what is absent and 422 are real;
// every change counts the resourceVersion up; a patch of the node cannot reach
// its status and the other way round. Calls are recorded and can be broken,
// before or after they take effect.
type apiServer struct {
	tb     testing.TB
	server *httptest.Server

	mu        sync.Mutex
	version   int
	node      *corev1.Node
	pods      map[string]*corev1.Pod // by namespace/name
	events    []corev1.Event
	calls     []apiCall
	intercept func(apiCall) apiFault
	log       []podEvent
	watchers  map[chan struct{}]bool
	stop      chan struct{}
}

type apiCall struct {
	number       int // from 1, watches not counted
	method, path string
	agent, query string
	body         string
	status       int
}

func (c apiCall) String() string { return c.method + " " + c.path }

// apiFault breaks one call.
type apiFault struct {
	cutRequest bool // no effect, no answer
	cutAnswer  bool // effect, no answer
	refuse     int  // no effect, this status
	before     func()
	after      func()
}

type podEvent struct {
	version int
	kind    string
	pod     *corev1.Pod
}

func newAPIServer(tb testing.TB, node *corev1.Node) *apiServer {
	s := &apiServer{
		tb: tb, version: 1, node: node.DeepCopy(), pods: make(map[string]*corev1.Pod),
		watchers: make(map[chan struct{}]bool), stop: make(chan struct{}),
	}
	s.node.ResourceVersion = "1"
	s.server = httptest.NewServer(http.HandlerFunc(s.serve))
	tb.Cleanup(func() {
		close(s.stop)
		s.server.CloseClientConnections()
		s.server.Close()
	})
	return s
}

// client is a client of its own with its own connections, called agent.
func (s *apiServer) client(agent string) rest.Interface {
	transport := &http.Transport{MaxIdleConnsPerHost: 4}
	s.tb.Cleanup(transport.CloseIdleConnections)
	client, err := coreClient(&rest.Config{Host: s.server.URL, QPS: -1, UserAgent: agent, Transport: transport})
	if err != nil {
		s.tb.Fatal(err)
	}
	return client
}

func (s *apiServer) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if r.URL.Query().Get("watch") != "" {
		s.watch(w, r)
		return
	}
	s.mu.Lock()
	call := apiCall{
		number: len(s.calls) + 1, method: r.Method, path: r.URL.Path,
		agent: r.UserAgent(), query: r.URL.RawQuery, body: string(body),
	}
	s.calls = append(s.calls, call)
	var fault apiFault
	if s.intercept != nil {
		fault = s.intercept(call)
	}
	s.mu.Unlock()

	if fault.before != nil {
		fault.before()
	}
	if fault.cutRequest {
		panic(http.ErrAbortHandler)
	}
	status, answer := fault.refuse, any(nil)
	if fault.refuse == 0 {
		status, answer = s.do(r, body)
	}
	if status >= 400 {
		answer = statusOf(status, answer)
	}
	s.mu.Lock()
	s.calls[call.number-1].status = status
	s.mu.Unlock()
	if fault.after != nil {
		fault.after()
	}
	if fault.cutAnswer {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer)
}

func statusOf(code int, message any) metav1.Status {
	reasons := map[int]metav1.StatusReason{
		400: metav1.StatusReasonBadRequest, 403: metav1.StatusReasonForbidden, 404: metav1.StatusReasonNotFound,
		409: metav1.StatusReasonConflict, 422: metav1.StatusReasonInvalid, 500: metav1.StatusReasonInternalError,
		503: metav1.StatusReasonServiceUnavailable,
	}
	reason, ok := message.(metav1.StatusReason)
	if !ok {
		reason = reasons[code]
	}
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: fmt.Sprint(message),
	}
}

// do answers one call; an answer with a status of 400 or more is a message.
func (s *apiServer) do(r *http.Request, body []byte) (int, any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	path := strings.Split(strings.TrimPrefix(r.URL.Path, "/api/v1/"), "/")
	switch {
	case len(path) == 1 && path[0] == "pods" && r.Method == http.MethodGet:
		if want := "spec.nodeName=" + s.node.Name; r.URL.Query().Get("fieldSelector") != want || r.URL.Query().Has("resourceVersion") {
			return http.StatusBadRequest, "want a list of the most recent pods of the node, found " + r.URL.RawQuery
		}
		list := corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(s.version)}}
		for _, p := range s.pods {
			if p.Spec.NodeName == s.node.Name {
				list.Items = append(list.Items, *p)
			}
		}
		return http.StatusOK, list
	case len(path) >= 2 && path[0] == "nodes" && path[1] == s.node.Name:
		return s.doNode(r, body, path[2:])
	case len(path) == 4 && path[0] == "namespaces" && path[2] == "pods":
		return s.doPod(r, body, path[1]+"/"+path[3])
	case len(path) == 3 && path[0] == "namespaces" && path[2] == "events" && r.Method == http.MethodPost:
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil) // JSON or protobuf
		e, ok := object.(*corev1.Event)
		if !ok || e.Namespace != path[1] || e.Name == "" {
			return http.StatusBadRequest, fmt.Sprint("bad event: ", err)
		}
		if slices.ContainsFunc(s.events, func(other corev1.Event) bool { return other.Namespace == e.Namespace && other.Name == e.Name }) {
			return http.StatusConflict, metav1.StatusReasonAlreadyExists
		}
		s.events = append(s.events, *e)
		return http.StatusCreated, e
	}
	return http.StatusNotFound, "not found"
}

func (s *apiServer) doNode(r *http.Request, body []byte, sub []string) (int, any) {
	switch r.Method {
	case http.MethodGet:
		return http.StatusOK, s.node
	case http.MethodPatch:
		var next corev1.Node
		if err := patched(r, body, s.node, &next); err != nil {
			return http.StatusUnprocessableEntity, err
		}
		if slices.Equal(sub, []string{"status"}) {
			next.ObjectMeta, next.Spec = s.node.ObjectMeta, s.node.Spec
		} else {
			next.Status = s.node.Status
		}
		s.version++
		next.ResourceVersion = strconv.Itoa(s.version)
		s.node = &next
		return http.StatusOK, s.node
	}
	return http.StatusMethodNotAllowed, "not allowed"
}

func (s *apiServer) doPod(r *http.Request, body []byte, key string) (int, any) {
	pod := s.pods[key]
	if pod == nil {
		return http.StatusNotFound, "pod not found"
	}
	switch r.Method {
	case http.MethodGet:
		return http.StatusOK, pod
	case http.MethodPatch:
		var next corev1.Pod
		if err := patched(r, body, pod, &next); err != nil {
			return http.StatusUnprocessableEntity, err
		}
		next.Status, next.Spec = pod.Status, pod.Spec
		s.store(&next, "MODIFIED")
		return http.StatusOK, s.pods[key]
	}
	return http.StatusMethodNotAllowed, "not allowed"
}

func patched[T any](r *http.Request, body []byte, have, next *T) error {
	before, err := json.Marshal(have)
	if err != nil {
		return err
	}
	var after []byte
	switch types.PatchType(r.Header.Get("Content-Type")) {
	case types.JSONPatchType:
		p, err := jsonpatch.DecodePatch(body)
		if err != nil {
			return err
		}
		if after, err = p.Apply(before); err != nil {
			return err
		}
	case types.MergePatchType:
		if after, err = jsonpatch.MergePatch(before, body); err != nil {
			return err
		}
	default:
		return errors.New("unknown kind of patch")
	}
	d := json.NewDecoder(bytes.NewReader(after))
	d.DisallowUnknownFields()
	return d.Decode(next)
}

// store keeps a copy of the pod and tells the watchers. s.mu is held.
func (s *apiServer) store(pod *corev1.Pod, kind string) {
	s.version++
	pod = pod.DeepCopy()
	pod.ResourceVersion = strconv.Itoa(s.version)
	pod.TypeMeta = metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}
	key := pod.Namespace + "/" + pod.Name
	if kind == "DELETED" {
		delete(s.pods, key)
	} else {
		s.pods[key] = pod
	}
	s.log = append(s.log, podEvent{s.version, kind, pod})
	for w := range s.watchers {
		select {
		case w <- struct{}{}:
		default:
		}
	}
}

func (s *apiServer) watch(w http.ResponseWriter, r *http.Request) {
	from, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	news := make(chan struct{}, 1)
	s.mu.Lock()
	s.watchers[news] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.watchers, news)
		s.mu.Unlock()
	}()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	for {
		s.mu.Lock()
		var events []podEvent
		for _, e := range s.log {
			if e.version > from {
				events = append(events, e)
			}
		}
		s.mu.Unlock()
		for _, e := range events {
			from = e.version
			if json.NewEncoder(w).Encode(map[string]any{"type": e.kind, "object": e.pod}) != nil {
				return
			}
		}
		w.(http.Flusher).Flush()
		select {
		case <-news:
		case <-r.Context().Done():
			return
		case <-s.stop:
			return
		}
	}
}

// What a test does to the objects, and what it finds there.

func (s *apiServer) put(pod *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kind := "ADDED"
	if s.pods[pod.Namespace+"/"+pod.Name] != nil {
		kind = "MODIFIED"
	}
	s.store(pod, kind)
}

func (s *apiServer) edit(key string, f func(*corev1.Pod)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pod := s.pods[key].DeepCopy()
	f(pod)
	s.store(pod, "MODIFIED")
}

func (s *apiServer) remove(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store(s.pods[key], "DELETED")
}

func (s *apiServer) pod(key string) *corev1.Pod {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pods[key].DeepCopy()
}

func (s *apiServer) editNode(f func(*corev1.Node)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	s.node = s.node.DeepCopy()
	f(s.node)
	s.node.ResourceVersion = strconv.Itoa(s.version)
}

func (s *apiServer) currentNode() *corev1.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.node.DeepCopy()
}

func (s *apiServer) break_(f func(apiCall) apiFault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.intercept = f
}

// reset forgets the calls so far and returns them.
func (s *apiServer) reset() []apiCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.calls
	s.calls = nil
	return calls
}

func (s *apiServer) recorded() []corev1.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events)
}

// eventually waits for something that happens in the background.
func eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	for range 1000 {
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	tb.Fatalf("never happened: %s", what)
}
