package monitor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	// scrapeHeader is how long Prometheus waits for the answer, in seconds.
	scrapeHeader = "X-Prometheus-Scrape-Timeout-Seconds"
	// answerTime is left of it for encoding and the way back.
	answerTime = 500 * time.Millisecond
	// scrapesAtOnce are collections at the same time; each further request is
	// told to come again.
	scrapesAtOnce = 4
	// shutdownTime is for requests under way when the server is to end.
	shutdownTime = 5 * time.Second
)

// Handler serves a collector at /metrics, and for kubelet's probes /healthz,
// which answers as long as the process serves at all, and /readyz, which answers
// with status 503 and the error of ready while that is not nil.
func Handler(c *Collector, ready func() error) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metricsHandler(c))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		io.WriteString(w, "ok\n")
	})
	return mux
}

// metricsHandler collects for one request at a time, so that a collection ends
// when Prometheus no longer waits for it.
func metricsHandler(c *Collector) http.Handler {
	free := make(chan struct{}, scrapesAtOnce)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case free <- struct{}{}:
			defer func() { <-free }()
		default:
			http.Error(w, fmt.Sprintf("want at most %d scrapes at once", scrapesAtOnce), http.StatusServiceUnavailable)
			return
		}
		ctx := r.Context()
		if limit, ok := scrapeTimeout(r.Header.Get(scrapeHeader)); ok {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, limit)
			defer cancel()
		}
		registry := prometheus.NewRegistry()
		if err := registry.Register(c.WithContext(ctx)); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}).ServeHTTP(w, r)
	})
}

// scrapeTimeout is how long a collection may take for the given header.
func scrapeTimeout(header string) (time.Duration, bool) {
	seconds, err := strconv.ParseFloat(header, 64)
	if err != nil || math.IsNaN(seconds) || seconds <= 0 || seconds > 3600 {
		return 0, false
	}
	limit := time.Duration(seconds * float64(time.Second))
	return limit - min(answerTime, limit/4), true
}

// Serve answers on l until ctx ends, and then lets requests under way finish.
// It closes l.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	server := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      time.Minute,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve metrics on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
	defer cancel()
	if err := server.Shutdown(ending); err != nil {
		return errors.Join(fmt.Errorf("end of service on %s: %w", l.Addr(), err), server.Close())
	}
	return nil
}
