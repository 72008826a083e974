package prometheus

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// rendered is the chart with everything for Prometheus and Grafana, which
// package chartcheck keeps as "helm template" prints it.
const rendered = repository + "/examples/deviceplugin/testdata/rendered/monitor-prometheus.yaml"

// object is what is looked at of a rendered manifest.
type object struct {
	Kind     string
	Metadata struct{ Name, Namespace string }
	Data     map[string]string
	Spec     struct {
		Groups    []group
		Endpoints []struct{ HonorLabels bool }
	}
	text string
}

type group struct {
	Name  string
	Rules []rule
}

type rule struct {
	Record, Alert, Expr string
}

// manifests are the rendered manifests of a kind.
func manifests(t *testing.T, kind string) []object {
	t.Helper()
	stream, err := os.ReadFile(rendered)
	if err != nil {
		t.Fatal(err)
	}
	var found []object
	for document := range strings.SplitSeq(string(stream), "---\n") {
		o := object{text: document}
		if err := yaml.Unmarshal([]byte(document), &o); err != nil {
			t.Fatal(err)
		}
		if o.Kind == kind {
			found = append(found, o)
		}
	}
	if len(found) == 0 {
		t.Fatalf("the rendered chart has no %s", kind)
	}
	return found
}

// writeRules puts the spec of the PrometheusRule into a folder as rules.yaml,
// as the operator does, and returns its groups.
func writeRules(t *testing.T, dir string) []group {
	t.Helper()
	o := manifests(t, "PrometheusRule")[0]
	var whole struct{ Spec any }
	if err := yaml.Unmarshal([]byte(o.text), &whole); err != nil {
		t.Fatal(err)
	}
	spec, err := yaml.Marshal(whole.Spec)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "rules.yaml"), string(spec))
	return o.Spec.Groups
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// query is one of a panel, with what its variables stand for put in.
type query struct{ panel, ref, expr string }

var variable = regexp.MustCompile(`\$\{?\w+\}?`)

// queries are those of the dashboard, with everything selected.
func queries(t *testing.T) []query {
	t.Helper()
	var text string
	for _, o := range manifests(t, "ConfigMap") {
		text += o.Data["amd-gpu.json"]
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ RefID, Expr string }
		}
	}
	if err := json.Unmarshal([]byte(text), &dashboard); err != nil {
		t.Fatal(err)
	}
	var out []query
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			expr := strings.NewReplacer("$namespace", ".*", "$node", ".*").Replace(target.Expr)
			if left := variable.FindString(expr); left != "" {
				t.Errorf("panel %q: variable %s is not known here", p.Title, left)
			}
			out = append(out, query{p.Title, target.RefID, expr})
		}
	}
	if len(out) < 10 {
		t.Fatalf("the dashboard has %d queries", len(out))
	}
	return out
}

// promtool runs promtool in a folder.
func promtool(t *testing.T, dir string, args ...string) {
	t.Helper()
	c := exec.Command(find(t, "promtool"), args...)
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestRulesAreRules(t *testing.T) {
	dir := t.TempDir()
	writeRules(t, dir)
	promtool(t, dir, "check", "rules", "rules.yaml")
}

// Each alert fires and does not fire as testdata/alerts.yaml says.
func TestAlerts(t *testing.T) {
	dir := t.TempDir()
	groups := writeRules(t, dir)
	cases, err := os.ReadFile("testdata/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "alerts.yaml"), string(cases))
	promtool(t, dir, "test", "rules", "alerts.yaml")

	var file struct {
		Tests []struct {
			Name           string           `json:"name"`
			AlertRuleTests []map[string]any `json:"alert_rule_test"`
		}
	}
	if err := yaml.Unmarshal(cases, &file); err != nil {
		t.Fatal(err)
	}
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, test := range file.Tests {
		for _, a := range test.AlertRuleTests {
			name := fmt.Sprint(a["alertname"])
			if list, _ := a["exp_alerts"].([]any); len(list) > 0 {
				fires[name] = true
			} else {
				quiet[name] = true
			}
		}
	}
	alerts := 0
	for _, g := range groups {
		for _, r := range g.Rules {
			if r.Alert == "" {
				continue
			}
			alerts++
			if !fires[r.Alert] || !quiet[r.Alert] {
				t.Errorf("%s: tested firing %t, not firing %t", r.Alert, fires[r.Alert], quiet[r.Alert])
			}
		}
	}
	if alerts < 5 {
		t.Errorf("%d alerts", alerts)
	}
}

// Prometheus understands every query of the dashboard.
func TestDashboardParses(t *testing.T) {
	dir := t.TempDir()
	var rules []map[string]string
	for i, q := range queries(t) {
		rules = append(rules, map[string]string{"record": fmt.Sprintf("panel:query:n%d", i), "expr": q.expr})
	}
	text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "dashboard.yaml"), string(text))
	promtool(t, dir, "check", "rules", "dashboard.yaml")
}
