package kubeyaml

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// summary is what the tests compare: names and the reasons of what was skipped.
type summary struct {
	Nodes, Pods, Skipped []string
}

func summarize(o *Objects) summary {
	var s summary
	for _, n := range o.Nodes {
		s.Nodes = append(s.Nodes, n.Name)
	}
	for _, p := range o.Pods {
		s.Pods = append(s.Pods, p.Namespace+"/"+p.Name)
	}
	for _, err := range o.Skipped {
		s.Skipped = append(s.Skipped, err.Error())
	}
	return s
}

func TestReadAcceptsWhatKubectlPrints(t *testing.T) {
	for name, tc := range map[string]struct {
		input string
		want  summary
	}{
		"nothing":       {input: "", want: summary{}},
		"only comments": {input: "# nothing here\n---\n# nor here\n", want: summary{}},
		"one object": {
			input: "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: ns}\n",
			want:  summary{Pods: []string{"ns/a"}},
		},
		"list of both kinds": {
			input: `apiVersion: v1
items:
- apiVersion: v1
  kind: Node
  metadata:
    name: n1
- apiVersion: v1
  kind: Pod
  metadata:
    name: a
    namespace: ns
kind: List
metadata:
  resourceVersion: ""
`,
			want: summary{Nodes: []string{"n1"}, Pods: []string{"ns/a"}},
		},
		"the API's own list leaves out the items' kind": {
			input: `{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"a","namespace":"ns"}}]}`,
			want:  summary{Pods: []string{"ns/a"}},
		},
		"empty list": {input: "apiVersion: v1\nitems: []\nkind: List\n", want: summary{}},
		"several documents, YAML and JSON": {
			input: "kind: Node\nmetadata: {name: n1}\n---\n{\"kind\":\"Node\",\"metadata\":{\"name\":\"n2\"}}\n---\nkind: Node\nmetadata: {name: n3}\n",
			want:  summary{Nodes: []string{"n1", "n2", "n3"}},
		},
		"a broken pod does not take the others along": {
			input: `kind: List
items:
- kind: Pod
  metadata: {name: bad, namespace: ns}
  spec: {containers: [{name: c, resources: {limits: {amd.com/gpu: "one"}}}]}
- kind: Pod
  metadata: {name: good, namespace: ns}
- kind: Service
  metadata: {name: web, namespace: ns}
- 7
- null
- kind: Pod
  metadata: {name: shape, namespace: ns}
  spec: {containers: web}
`,
			want: summary{
				Pods: []string{"ns/good"},
				Skipped: []string{
					`Pod "ns/bad": quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'`,
					`Service "ns/web": want a Node, a Pod or a list of them`,
					`item: not a Kubernetes object: want an object, found a JSON number`,
					`item: not a Kubernetes object: null`,
					`Pod "ns/shape": spec.containers: want a list, found a JSON string`,
				},
			},
		},
		"lists nested without end": {
			input: strings.Repeat(`{"kind":"List","items":[`, 6) + strings.Repeat("]}", 6),
			want:  summary{Skipped: []string{"List: lists are nested more than 4 deep"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := Read(strings.NewReader(tc.input))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, summarize(o)); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadRefusesBrokenSyntax(t *testing.T) {
	for name, input := range map[string]string{
		"tab indent":              "kind: Pod\nmetadata:\n\tname: a\n",
		"repeated key":            "kind: Pod\nkind: Node\n",
		"half a JSON object":      `{"kind":"Pod","metadata":{"name":"a"}`,
		"second document":         "kind: Pod\n---\n[}\n",
		"anchors without end":     "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f,*f,*f,*f,*f,*f]\n",
		"neither YAML nor JSON":   "kind: \"Pod\n",
		"aliases of a large text": "a: &a \"" + strings.Repeat("x", 100_000) + "\"\nb: [" + strings.Repeat("*a,", 1000) + "]\n",
		"aliases of such aliases": "a: &a \"" + strings.Repeat("x", 10_000) + "\"\nb: &b [" + strings.Repeat("*a,", 100) + "]\nc: [" + strings.Repeat("*b,", 100) + "]\n",
		"more YAML than is read":  "kind: \"" + strings.Repeat("x", maxYAML) + "\"\n",
	} {
		t.Run(name, func(t *testing.T) {
			o, err := Read(strings.NewReader(input))
			if err == nil {
				t.Fatalf("read %+v, want an error", summarize(o))
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("error has several lines: %q", err)
			}
		})
	}
}

// People write a container's resources once and refer to them: aliases that
// repeat little are read.
func TestReadAcceptsAliases(t *testing.T) {
	o, err := Read(strings.NewReader(`kind: Pod
metadata: {name: a, namespace: ns}
spec:
  containers:
  - {name: one, resources: &half {limits: {amd.com/gpucores: 50}}, args: ["*", "a & b"]}
  - {name: two, resources: *half}
`))
	if err != nil || len(o.Pods) != 1 {
		t.Fatalf("found %+v, %v, want one pod", o, err)
	}
	for _, c := range o.Pods[0].Spec.Containers {
		if got := c.Resources.Limits["amd.com/gpucores"]; got.Value() != 50 {
			t.Errorf("container %s: found %s %% of the cores, want 50", c.Name, got.String())
		}
	}
}

// endless yields blanks for as long as it is read.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
		if i%80 == 79 {
			p[i] = '\n'
		}
	}
	return len(p), nil
}

func TestReadIsBounded(t *testing.T) {
	_, err := read(endless{}, 1<<16)
	if err == nil || !strings.Contains(err.Error(), "larger than 65536 bytes") {
		t.Errorf("endless input: got %v, want an error that names the bound", err)
	}
	if _, err := read(io.LimitReader(endless{}, 1<<16), 1<<16); err != nil {
		t.Errorf("input of exactly the bound: %v", err)
	}
}

func TestReadFile(t *testing.T) {
	if _, err := ReadFile(t.TempDir()+"/absent.yaml", nil); err == nil {
		t.Error("a missing file was read")
	}
	o, err := ReadFile("-", strings.NewReader("kind: Node\nmetadata: {name: n1}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(summary{Nodes: []string{"n1"}}, summarize(o)); diff != "" {
		t.Errorf("standard input (-want +got):\n%s", diff)
	}
	broken := errors.New("disk gone")
	if _, err := Read(io.MultiReader(strings.NewReader("kind: Node\n"), failing{broken})); !errors.Is(err, broken) {
		t.Errorf("a failing reader gave %v", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func FuzzRead(f *testing.F) {
	f.Add("kind: Pod\nmetadata: {name: a}\n---\n{\"kind\":\"Node\"}\n")
	f.Add("kind: List\nitems:\n- kind: Pod\n- kind: Node\n")
	f.Add("{\"kind\":\"PodList\",\"items\":[{},null,7]}")
	f.Fuzz(func(t *testing.T, input string) {
		o, err := Read(strings.NewReader(input))
		if (o == nil) == (err == nil) {
			t.Errorf("objects %v and error %v, want one of them", o, err)
		}
	})
}
