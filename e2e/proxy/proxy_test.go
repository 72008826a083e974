package proxy

import (
	"bufio"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/client-go/rest"
)

// apiServer notes what reaches it.
type apiServer struct {
	mu   sync.Mutex
	seen []string
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.seen = append(s.seen, fmt.Sprintf("%s %s %s %s", r.Method, r.URL.Path, r.Header.Get("Authorization"), body))
	s.mu.Unlock()
	if r.URL.Query().Get("watch") != "" {
		fmt.Fprintln(w, "first")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return
	}
	if r.Method == http.MethodPatch {
		w.WriteHeader(http.StatusConflict)
	}
	fmt.Fprint(w, "answer")
}

// start returns a proxy in front of an API server, and a client that goes
// through it with a token and never tries again by itself.
func start(t *testing.T) (*apiServer, *Proxy, func(method, path, body string) (int, error)) {
	t.Helper()
	api := &apiServer{}
	server := httptest.NewTLSServer(api)
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	access := &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: ca}, BearerToken: "admin"}
	p, err := Start(access)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Stop() })
	access.BearerToken = "plugin"
	through := p.Access(access)
	client := clientOf(t, through)
	return api, p, func(method, path, body string) (int, error) {
		req, err := http.NewRequestWithContext(t.Context(), method, through.Host+path, strings.NewReader(body))
		if err != nil {
			return 0, err
		}
		req.Close = true
		resp, err := client.Do(req)
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		_, err = io.ReadAll(resp.Body)
		return resp.StatusCode, err
	}
}

// clientOf returns a client with the token and the certificates of an access.
func clientOf(t *testing.T, access *rest.Config) *http.Client {
	t.Helper()
	client, err := rest.HTTPClientFor(access)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestCallsAreRecorded(t *testing.T) {
	api, p, do := start(t)
	if status, err := do("GET", "/api/v1/nodes/n?resourceVersion=0", ""); status != 200 || err != nil {
		t.Errorf("GET: %d, %v", status, err)
	}
	if status, err := do("PATCH", "/api/v1/nodes/n", "{}"); status != 409 || err != nil {
		t.Errorf("PATCH: %d, %v", status, err)
	}
	want := []Call{
		{Number: 1, Method: "GET", Path: "/api/v1/nodes/n", Query: map[string][]string{"resourceVersion": {"0"}}, Status: 200},
		{Number: 2, Method: "PATCH", Path: "/api/v1/nodes/n", Body: []byte("{}"), Status: 409},
	}
	ignore := cmpopts.IgnoreFields(Call{}, "Took", "UserAgent")
	if diff := cmp.Diff(want, p.Calls(), ignore, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	wantSeen := []string{"GET /api/v1/nodes/n Bearer plugin ", "PATCH /api/v1/nodes/n Bearer plugin {}"}
	if diff := cmp.Diff(wantSeen, api.seen); diff != "" {
		t.Errorf("what reached the API server (-want +got):\n%s", diff)
	}
	if got := len(p.Reset()); got != 2 {
		t.Errorf("Reset returned %d calls, want 2", got)
	}
	if _, err := do("GET", "/", ""); err != nil {
		t.Error(err)
	}
	if calls := p.Calls(); len(calls) != 1 || calls[0].Number != 1 {
		t.Errorf("calls after Reset are %+v", calls)
	}
}

func TestFaults(t *testing.T) {
	var steps []string
	note := func(step string) func() { return func() { steps = append(steps, step) } }
	for name, tt := range map[string]struct {
		fault   Fault
		status  int // what the program sees, 0 for no answer
		reached bool
		noted   int // what the proxy notes
		steps   []string
	}{
		"none":            {fault: Fault{Before: note("before"), After: note("after")}, status: 409, reached: true, noted: 409, steps: []string{"before", "after"}},
		"request is cut":  {fault: Fault{Before: note("before"), CutRequest: true, After: note("after")}, steps: []string{"before"}},
		"answer is cut":   {fault: Fault{After: note("after"), CutAnswer: true}, reached: true, noted: 409, steps: []string{"after"}},
		"call is refused": {fault: Fault{Before: note("before"), Refuse: 503, After: note("after")}, status: 503, noted: 503, steps: []string{"before"}},
	} {
		t.Run(name, func(t *testing.T) {
			api, p, do := start(t)
			steps = nil
			p.Intercept(func(c Call) Fault {
				if c.Number != 1 {
					return Fault{}
				}
				return tt.fault
			})
			status, err := do("PATCH", "/api/v1/nodes/n", "{}")
			if status != tt.status || (err == nil) != (tt.status != 0) {
				t.Errorf("the program sees %d, %v; want %d", status, err, tt.status)
			}
			if reached := len(api.seen) == 1; reached != tt.reached {
				t.Errorf("the API server has seen %v", api.seen)
			}
			if got := p.Calls()[0].Status; got != tt.noted {
				t.Errorf("noted status is %d, want %d", got, tt.noted)
			}
			if !slices.Equal(steps, tt.steps) {
				t.Errorf("steps are %v, want %v", steps, tt.steps)
			}
			if status, err := do("PATCH", "/api/v1/nodes/n", "{}"); status != 409 || err != nil {
				t.Errorf("the next call: %d, %v", status, err)
			}
		})
	}
}

func TestAPIServerThatIsAway(t *testing.T) {
	p, err := Start(&rest.Config{Host: "https://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	through := p.Access(&rest.Config{})
	resp, err := clientOf(t, through).Get(through.Host)
	if err == nil {
		resp.Body.Close()
		t.Errorf("answer is %s, want none", resp.Status)
	}
}

func TestWatchIsPassedOnEventByEvent(t *testing.T) {
	_, p, _ := start(t)
	through := p.Access(&rest.Config{})
	resp, err := clientOf(t, through).Get(through.Host + "/api/v1/pods?watch=true")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if line, err := bufio.NewReader(resp.Body).ReadString('\n'); line != "first\n" {
		t.Errorf("first event is %q, %v", line, err)
	}
	if calls := p.Calls(); len(calls) != 1 || !calls[0].Watch {
		t.Errorf("calls are %+v, want one watch", calls)
	}
}
