package prometheus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/Project-HAMi/hami-amd/e2e/process"
)

// server is a Prometheus that scrapes one target every other second.
type server struct {
	*testing.T
	*program
}

// startPrometheus runs Prometheus with the chart's rules. The target has the
// labels that the operator gives it, from the pod that serves it, and labels of
// the metrics outrank them as the chart's ServiceMonitor says.
func startPrometheus(t *testing.T, target string) *server {
	t.Helper()
	dir := t.TempDir()
	writeRules(t, dir)
	config, err := yaml.Marshal(map[string]any{
		"global":     map[string]any{"scrape_interval": "2s", "evaluation_interval": "1s"},
		"rule_files": []string{"rules.yaml"},
		"scrape_configs": []any{map[string]any{
			"job_name":     manifests(t, "Service")[0].Metadata.Name,
			"honor_labels": manifests(t, "ServiceMonitor")[0].Spec.Endpoints[0].HonorLabels,
			"static_configs": []any{map[string]any{
				"targets": []string{target},
				"labels":  map[string]string{"namespace": "kube-system", "pod": "k8s-vgpu-monitor-abcde", "container": "monitor", "node": nodeName},
			}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "prometheus.yaml"), string(config))
	p := start(t, process.Options{
		Name: "prometheus", Path: find(t, "prometheus"),
		Args: []string{
			"--config.file=" + filepath.Join(dir, "prometheus.yaml"), "--storage.tsdb.path=" + filepath.Join(dir, "data"),
			"--web.listen-address=127.0.0.1:0", "--log.level=info",
		},
	})
	return &server{t, p}
}

// get asks Prometheus' HTTP API.
func (s *server) get(ctx context.Context, path string, query url.Values, data any) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, "GET", "http://"+s.address+path+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return fmt.Errorf("%s: %w", response.Status, err)
	}
	if answer.Status != "success" {
		return errors.New(answer.Error)
	}
	return json.Unmarshal(answer.Data, data)
}

// query returns the series that an expression has now, as they are written,
// with the labels in order and without those of the target.
func (s *server) query(ctx context.Context, expr string) ([]string, error) {
	var data struct {
		Result []struct {
			Metric map[string]string
			Value  [2]any
		}
	}
	if err := s.get(ctx, "/api/v1/query", url.Values{"query": {expr}}, &data); err != nil {
		return nil, err
	}
	var out []string
	for _, r := range data.Result {
		var labels []string
		for k, v := range r.Metric {
			if !slices.Contains([]string{"__name__", "instance", "job", "zone"}, k) {
				labels = append(labels, k+"="+strconv.Quote(v))
			}
		}
		slices.Sort(labels)
		out = append(out, fmt.Sprintf("{%s} %v", strings.Join(labels, ","), r.Value[1]))
	}
	slices.Sort(out)
	return out, nil
}

// wants waits until an expression has some series.
func (s *server) wants(expr string, want ...string) {
	s.Helper()
	slices.Sort(want)
	s.eventually(expr, func(ctx context.Context) error {
		got, err := s.query(ctx, expr)
		if diff := cmp.Diff(want, got); err == nil && diff != "" {
			err = fmt.Errorf("(-want +got):\n%s", diff)
		}
		return err
	})
}

// eventually tries something until it works.
func (s *server) eventually(what string, try func(context.Context) error) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	for {
		last := try(ctx)
		if last == nil {
			return
		}
		select {
		case <-s.Done():
			s.Fatalf("%s: prometheus has ended: %v", what, s.Err())
		case <-ctx.Done():
			s.Errorf("%s: %v", what, last)
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// wantAlert waits until Prometheus has an alert, which is pending for as long
// as its rule says, with some of its labels.
func (s *server) wantAlert(name string, labels map[string]string) {
	s.Helper()
	s.eventually(name, func(ctx context.Context) error {
		var data struct {
			Alerts []struct{ Labels map[string]string }
		}
		if err := s.get(ctx, "/api/v1/alerts", nil, &data); err != nil {
			return err
		}
		for _, a := range data.Alerts {
			match := a.Labels["alertname"] == name
			for k, v := range labels {
				match = match && a.Labels[k] == v
			}
			if match {
				return nil
			}
		}
		return fmt.Errorf("no alert with %v in %v", labels, data.Alerts)
	})
}
