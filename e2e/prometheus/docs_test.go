package prometheus

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"sigs.k8s.io/yaml"
)

// documented are the blocks of a kind in the documents, by file and number.
func documented(t *testing.T, info string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(repository + "/docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, m := range regexp.MustCompile("(?ms)^```"+info+"\n(.*?)^```").FindAllStringSubmatch(string(text), -1) {
			found[fmt.Sprintf("%s %d", filepath.Base(file), i)] = m[1]
		}
	}
	if len(found) == 0 {
		t.Fatalf("no document has a block %q", info)
	}
	return found
}

// The queries and the configuration in the documents are understood.
func TestDocuments(t *testing.T) {
	dir := t.TempDir()
	var rules []map[string]string
	for _, query := range documented(t, "promql") {
		rules = append(rules, map[string]string{"record": fmt.Sprintf("document:query:n%d", len(rules)), "expr": query})
	}
	text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "documents", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "documents.yaml"), string(text))
	promtool(t, dir, "check", "rules", "documents.yaml")
	for name, config := range documented(t, "yaml prometheus") {
		write(t, filepath.Join(dir, "prometheus.yaml"), withoutKubernetes(t, config))
		promtool(t, dir, "check", "config", "--syntax-only", "prometheus.yaml")
		if t.Failed() {
			t.Errorf("%s", name)
		}
	}
}

// withoutKubernetes takes the discovery of pods out of a configuration: Debian
// builds Prometheus without it.
func withoutKubernetes(t *testing.T, config string) string {
	t.Helper()
	var c struct {
		ScrapeConfigs []map[string]any `json:"scrape_configs"`
	}
	if err := yaml.UnmarshalStrict([]byte(config), &c); err != nil {
		t.Fatal(err)
	}
	for _, s := range c.ScrapeConfigs {
		if got := fmt.Sprint(s["kubernetes_sd_configs"]); got != "[map[role:pod]]" {
			t.Errorf("discovery is %s, want that of pods", got)
		}
		delete(s, "kubernetes_sd_configs")
		if s["honor_labels"] != true {
			t.Error("the labels of tenants are not kept")
		}
	}
	text, err := yaml.Marshal(map[string]any{"scrape_configs": c.ScrapeConfigs})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
