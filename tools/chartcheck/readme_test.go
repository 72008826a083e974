package chartcheck

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// row is one value as the README lists it.
type row struct{ name, flag, initial, text string }

var flagOf = regexp.MustCompile(`^\[([-\w]+)\] `)

// rows reads values.yaml: a value is what has a comment that begins with "--",
// and everything is a value or holds values.
func rows(source []byte) ([]row, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(source, &document); err != nil {
		return nil, err
	}
	return rowsOf("", document.Content[0])
}

func rowsOf(prefix string, mapping *yaml.Node) ([]row, error) {
	var out []row
	for i := 0; i < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		name := prefix + key.Value
		_, text, described := strings.Cut(strings.ReplaceAll(key.HeadComment, "\n# ", " "), "# -- ")
		switch {
		case described:
			initial, err := initialOf(value)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			r := row{name: name, initial: initial, text: text}
			if m := flagOf.FindStringSubmatch(text); m != nil {
				r.flag, r.text = m[1], text[len(m[0]):]
			}
			out = append(out, r)
		case value.Kind == yaml.MappingNode && len(value.Content) > 0:
			inner, err := rowsOf(name+".", value)
			if err != nil {
				return nil, err
			}
			out = append(out, inner...)
		default:
			return nil, fmt.Errorf("%s has no comment that begins with --", name)
		}
	}
	return out, nil
}

// initialOf is a default as one line of JSON.
func initialOf(value *yaml.Node) (string, error) {
	var v any
	if err := value.Decode(&v); err != nil {
		return "", err
	}
	out, err := json.Marshal(v)
	return string(out), err
}

func table(rows []row) string {
	var out strings.Builder
	out.WriteString("| value | default | flag or variable | meaning |\n|---|---|---|---|\n")
	for _, r := range rows {
		flag := ""
		if r.flag != "" {
			flag = "`" + r.flag + "`"
		}
		fmt.Fprintf(&out, "| `%s` | `%s` | %s | %s |\n", r.name, r.initial, flag, strings.ReplaceAll(r.text, "|", `\|`))
	}
	return out.String()
}

const (
	tableBegin = "<!-- begin of the values, written by go test ./chartcheck -update in tools -->\n"
	tableEnd   = "<!-- end of the values -->\n"
)

func readValues(t *testing.T) []row {
	t.Helper()
	source, err := os.ReadFile(chartDir + "/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	out, err := rows(source)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The README lists every value with its default, flag and meaning.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile(chartDir + "/README.md")
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(readme), tableBegin)
	_, after, ok2 := strings.Cut(rest, tableEnd)
	if !ok || !ok2 {
		t.Fatalf("want the lines %q and %q", tableBegin, tableEnd)
	}
	compareFile(t, chartDir+"/README.md", before+tableBegin+table(readValues(t))+tableEnd+after)
}

// The flags that the README names are those that carry the values.
func TestReadmeFlags(t *testing.T) {
	flags := map[string]string{}
	for _, r := range readValues(t) {
		flags[r.name] = strings.TrimPrefix(r.flag, "-")
	}
	named := 0
	for _, s := range settings() {
		if flag, ok := flags[s.value]; !ok || flag != s.flag {
			t.Errorf("%s: the README names %q (listed: %t), the DaemonSet sets %q", s.value, flag, ok, s.flag)
		}
		if s.flag != "" {
			named++
		}
	}
	for _, flag := range flags {
		if flag != "" {
			named--
		}
	}
	if named != 0 {
		t.Errorf("the README names %d flags more than there are settings with one", -named)
	}
}

// schema is what is looked at of values.schema.json.
type schema struct {
	Properties           map[string]schema
	AdditionalProperties any
}

// names lists the values a schema describes. One that allows any member
// describes none below it.
func (s schema) names(prefix string) []string {
	var out []string
	for k, inner := range s.Properties {
		if below := inner.names(prefix + k + "."); len(below) > 0 {
			out = append(out, below...)
		} else {
			out = append(out, prefix+k)
		}
	}
	return out
}

// The schema has each value and no other, and no object of it is open.
func TestSchemaHasEveryValue(t *testing.T) {
	source, err := os.ReadFile(chartDir + "/values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var s schema
	if err := json.Unmarshal(source, &s); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, name := range s.names("") {
		known[name] = true
	}
	delete(known, "global") // Helm's own, for a subchart
	for _, r := range readValues(t) {
		if !known[r.name] {
			t.Errorf("%s is not in the schema", r.name)
		}
		delete(known, r.name)
	}
	if len(known) > 0 {
		t.Errorf("in the schema and not in values.yaml: %v", slices.Sorted(maps.Keys(known)))
	}
	var closed func(name string, s schema)
	closed = func(name string, s schema) {
		if len(s.Properties) > 0 && s.AdditionalProperties != false {
			t.Errorf("%s allows members it does not know", name)
		}
		for k, inner := range s.Properties {
			closed(name+"."+k, inner)
		}
	}
	closed("values", s)
}

func TestValuesWithoutCommentAreRefused(t *testing.T) {
	for name, source := range map[string]string{
		"a value":          "a: 1\n",
		"a common comment": "# The first.\na: 1\n",
		"an empty object":  "a: {}\n",
		"one inside":       "a:\n  # -- Yes.\n  b: 1\n  c: 2\n",
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := rows([]byte(source)); err == nil {
				t.Errorf("got %v, want an error", got)
			}
		})
	}
}
