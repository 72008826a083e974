package chartcheck

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

var (
	valuesBlock = regexp.MustCompile("(?ms)^```yaml values\n(.*?)^```")
	setFlag     = regexp.MustCompile(`--set ('[^']*'|\S+)`)
)

// The values in the documents are values of the chart, and render.
func TestDocuments(t *testing.T) {
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d documents, %v", len(files), err)
	}
	files = append(files, example+"/README.md", chartDir+"/README.md")
	blocks, flags := 0, 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range valuesBlock.FindAllStringSubmatch(string(text), -1) {
			blocks++
			v := values{}
			if err := yaml.Unmarshal([]byte(m[1]), &v); err != nil {
				t.Errorf("%s: %v", file, err)
			} else if _, err := renderChart(load(t), v, ""); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
		for _, m := range setFlag.FindAllStringSubmatch(string(text), -1) {
			flags++
			if _, err := renderChart(load(t), set(t, strings.Trim(m[1], "'")), ""); err != nil {
				t.Errorf("%s: --set %s: %v", file, m[1], err)
			}
		}
	}
	if blocks < 3 || flags < 4 {
		t.Errorf("%d blocks of values, %d --set", blocks, flags)
	}
}
