package chartcheck

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
)

// branch is where the text of a branch begins.
var branch = regexp.MustCompile(`\{\{-? *(if|else|with|range)\b[^}]*\}\}`)

// marked returns a copy of the chart whose branches each begin with a mark, and
// the marks.
func marked(c *chart.Chart, skip ...string) (*chart.Chart, []string) {
	copied := *c
	copied.Templates = nil
	var marks []string
	for _, f := range c.Templates {
		data := string(f.Data)
		if !slices.Contains(skip, f.Name) {
			line := func(offset int) int { return 1 + strings.Count(data[:offset], "\n") }
			var out strings.Builder
			last := 0
			for _, at := range branch.FindAllStringIndex(data, -1) {
				mark := fmt.Sprintf("<%s:%d branch %d>", f.Name, line(at[0]), len(marks))
				marks = append(marks, mark)
				out.WriteString(data[last:at[1]] + mark)
				last = at[1]
			}
			data = out.String() + data[last:]
		}
		copied.Templates = append(copied.Templates, &chart.File{Name: f.Name, Data: []byte(data)})
	}
	return &copied, marks
}

// Each branch of the templates is taken with some values and left out with
// others. Those of validation.yaml are TestRefused's.
func TestEveryBranchIsRendered(t *testing.T) {
	c, marks := marked(load(t), "templates/validation.yaml")
	taken, left := map[string]bool{}, map[string]bool{}
	for name, v := range cases(t) {
		files, err := renderChart(c, v, "")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var all strings.Builder
		for _, text := range files {
			all.WriteString(text)
		}
		for _, mark := range marks {
			if strings.Contains(all.String(), mark) {
				taken[mark] = true
			} else {
				left[mark] = true
			}
		}
	}
	for _, mark := range marks {
		if !taken[mark] {
			t.Errorf("no values render the branch at %s", mark)
		}
		if !left[mark] {
			t.Errorf("all values render the branch at %s", mark)
		}
	}
}
