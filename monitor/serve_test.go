package monitor

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/partition"
)

func get(h http.Handler, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	return w
}

func TestHandler(t *testing.T) {
	r := newRig(t, "rx9060xt", partition.ModeCU)
	r.start(r.pod("p", []annotations.Grant{r.grant(0, 1024, 4)}))
	notReady := errors.New("pods: not listed yet")
	h := Handler(r.Collector, func() error { return notReady })

	w := get(h, "/metrics")
	if w.Code != 200 || !strings.Contains(w.Body.String(), "hami_vgpumonitor_collect_success{node=\"gpu-node\",zone=\"vGPU\"} 1\n") {
		t.Errorf("/metrics: %d\n%s", w.Code, w.Body)
	}
	for line := range strings.Lines(w.Body.String()) {
		if name := strings.TrimPrefix(strings.TrimPrefix(line, "# HELP "), "# TYPE "); !strings.HasPrefix(name, "hami_") {
			t.Errorf("another's metric: %s", line)
		}
	}
	if w := get(h, "/healthz"); w.Code != 200 || w.Body.String() != "ok\n" {
		t.Errorf("/healthz: %d %s", w.Code, w.Body)
	}
	if w := get(h, "/readyz"); w.Code != 503 || w.Body.String() != notReady.Error()+"\n" {
		t.Errorf("/readyz: %d %s", w.Code, w.Body)
	}
	notReady = nil
	if w := get(h, "/readyz"); w.Code != 200 || w.Body.String() != "ok\n" {
		t.Errorf("/readyz: %d %s", w.Code, w.Body)
	}
	if w := get(h, "/debug/pprof/"); w.Code != 404 {
		t.Errorf("another path: %d", w.Code)
	}
	post := httptest.NewRecorder()
	h.ServeHTTP(post, httptest.NewRequest("POST", "/metrics", nil))
	if post.Code != 405 {
		t.Errorf("POST: %d", post.Code)
	}
}

// A collection that Prometheus no longer waits for ends, and more of them than
// there should be are refused.
func TestScrapesAreBounded(t *testing.T) {
	r := newRig(t, "rx9060xt", partition.ModeCU)
	hang, started := make(chan struct{}), make(chan struct{}, 1)
	bdf := string(r.devices[0].GPU.BDF)
	r.flights.DoChan("gpu/"+bdf, func() (any, error) { <-hang; return sensors{}, nil })
	h := Handler(r.Collector, func() error { return nil })

	request := httptest.NewRequest("GET", "/metrics", nil)
	request.Header.Set(scrapeHeader, "0.2")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, request)
	if w.Code != 200 || !strings.Contains(r.problemText(), "gpu "+bdf+" was not read: "+context.DeadlineExceeded.Error()) {
		t.Errorf("%d, problems: %s", w.Code, r.problemText())
	}

	r.cluster.onAnswer = func() { started <- struct{}{} }
	answers := make(chan int, scrapesAtOnce)
	for range scrapesAtOnce {
		go func() { answers <- get(h, "/metrics").Code }()
		<-started
	}
	if w := get(h, "/metrics"); w.Code != 503 || !strings.Contains(w.Body.String(), "want at most 4 scrapes at once") {
		t.Errorf("one too many: %d %s", w.Code, w.Body)
	}
	close(hang)
	for range scrapesAtOnce {
		if code := <-answers; code != 200 {
			t.Errorf("status %d", code)
		}
	}
}

func TestScrapeTimeout(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"10": 9500 * time.Millisecond, "1": 750 * time.Millisecond, "0.1": 75 * time.Millisecond, "15.5": 15 * time.Second,
		"": 0, "x": 0, "0": 0, "-1": 0, "NaN": 0, "Inf": 0, "1e300": 0, "3601": 0,
	} {
		if got, ok := scrapeTimeout(header); got != want || ok != (want > 0) {
			t.Errorf("%q: %s %t, want %s", header, got, ok, want)
		}
	}
}

// The server answers what is under way before it ends.
func TestServe(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	asked, answer := make(chan struct{}), make(chan struct{})
	served := make(chan error, 1)
	go func() {
		served <- Serve(ctx, l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			close(asked)
			<-answer
			io.WriteString(w, "late")
		}))
	}()
	body := make(chan string, 1)
	go func() {
		response, err := http.Get("http://" + l.Addr().String())
		if err != nil {
			body <- err.Error()
			return
		}
		defer response.Body.Close()
		b, _ := io.ReadAll(response.Body)
		body <- string(b)
	}()
	<-asked
	cancel()
	close(answer)
	if got := <-body; got != "late" {
		t.Errorf("answer %q", got)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	if err := Serve(t.Context(), l, nil); err == nil || !strings.Contains(err.Error(), l.Addr().String()) {
		t.Errorf("on a closed listener: %v", err)
	}
}
