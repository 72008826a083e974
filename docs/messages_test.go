package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/Project-HAMi/hami-amd/amd"
)

// shown are the files whose errors people meet: users in events and refusals,
// operators in logs.
var shown = []string{
	"amd/admit.go", "amd/env.go", "amd/quantity.go", "amd/request.go",
	"allocate/plan.go", "allocate/demand.go", "allocate/cus.go", "allocate/peak.go", "allocate/specenv.go", "allocate/recorded.go",
	"annotations/lockdecision.go", "annotations/nodelock.go",
	"cumask/geometry.go", "cumask/pack.go",
	"hook/decide.go", "hook/image/verdict.go",
	"partition/discover.go", "partition/register_shape.go",
	"plugin/allocator.go", "plugin/limits.go", "plugin/owner.go", "plugin/pods.go", "plugin/recorded.go", "plugin/config.go", "plugin/flags.go",
	"plugin/nodeconfig.go", "plugin/standalone.go", "plugin/start.go", "plugin/client.go", "plugin/hookgate.go",
	"dmem/available.go", "dmem/cap.go", "hook/install.go", "partition/switch.go", "partition/health.go", "partition/mode.go", "partition/options.go",
	"monitor/holdings.go", "monitor/masks.go", "monitor/devices.go", "monitor/collector.go", "monitor/region.go", "monitor/sensors.go",
	"monitor/cgroup.go", "monitor/watch.go", "monitor/store.go", "examples/monitor/config.go", "examples/monitor/main.go",
}

// unseen are messages that say nothing by themselves, or that no reader of the
// document can do anything about.
var unseen = map[string]string{
	"the node is not locked":                        "no failure",
	"want the namespace and name of a pod, found":   "a program's mistake",
	"nobody has looked":                             "a program's mistake",
	"LockVerdict(":                                  "a program's mistake",
	"and the lock is older than":                    "no failure",
	"list pods of node":                             "the API server's error follows",
	"open kfd topology":                             "the kernel's error follows",
	"bytes long, want at most":                      "a lock nobody can read, which is there",
	"node settings":                                 "",
	"cus per wgp: want 1 or 2":                      "in impossible geometry",
	"cus per wgp: want one or the other":            "in impossible geometry",
	"cus per sa: want none negative":                "in impossible geometry",
	"cus per sa: want at most":                      "in impossible geometry",
	"cus per sa in wgps of":                         "in impossible geometry",
	"cus: the shader arrays hold":                   "in impossible geometry",
	"xccs: want the same number on each":            "in impossible geometry",
	"cus: want 1 to":                                "in impossible geometry",
	"xccs: want 1 to":                               "in impossible geometry",
	"want cus up to":                                "in impossible geometry",
	"are devices 0x":                                "in conflicting sysfs entries",
	"want whole wgps":                               "in impossible geometry",
	"want whole wgps of":                            "in not grantable on this gpu",
	"cus: want whole wgps of":                       "in not grantable on this gpu",
	"one or more on each of":                        "in not grantable on this gpu",
	"want one on each of":                           "in not grantable on this gpu",
	"monitor: want the name of the node, have none": "a program's mistake",
	"monitor: want a cluster to ask for the node's pods, have none":             "a program's mistake",
	"monitor: want a timeout of 0 or more, have":                                "a program's mistake",
	"no region of the memory hook":                                              "no failure",
	"region of the memory hook: want names of letters, digits and dashes, have": "a pod's name that Kubernetes refuses",
	"discovered gpus":                                "the cause follows",
	"there is none":                                  "a NODE_NAME that is no node",
	"client of the API server":                       "the cause follows",
	"source became shorter: want":                    "the file is being written; it is tried again",
	"dmem limit: want a cgroup below the root, have": "a program's mistake",
	"dmem limit: want a region without blanks, have": "a program's mistake",
	"want less than 2^63 bytes, have":                "a program's mistake",
	"want one, have two":                             "a program's mistake",
	"switched from":                                  "no failure",
	"already in":                                     "no failure",
	"switching GPUs":                                 "the cause follows",
	"has no effect in operating mode":                "a note that says all",
	"which is excluded as a whole":                   "a note that says all",
	"node annotation":                                "in the event AMDGPUSettingIgnored",
	"dmem limit of":                                  "the cause follows",
	"discover gpus":                                  "the cause follows",
	"product names":                                  "a note without consequence",
	"that can be read":                               "the end of no kfd node",
	"settings of node":                               "the end of node settings",
	"plugin: want a client for the API server":       "a program's mistake",
	"NodeName is not set: want the Kubernetes name of this node": "a program's mistake",
}

var verb = regexp.MustCompile(`%[-+# 0]*(\[\d+\])?[\d.]*[a-zA-Z%]`)

// leastPiece is how long a part of a message has to be to be found by.
const leastPiece = 12

// longest is the longest part of a format that is the same in each message.
func longest(format string) string {
	best := ""
	for _, piece := range verb.Split(format, -1) {
		if piece = strings.Trim(piece, " :;,"); len(piece) > len(best) {
			best = piece
		}
	}
	return best
}

// formats are the messages of a file: what errors are made of, and reasons.
func formats(t *testing.T, file string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	take := func(e ast.Expr) {
		if b, ok := e.(*ast.BinaryExpr); ok {
			e = b.X
		}
		if l, ok := e.(*ast.BasicLit); ok && l.Kind == token.STRING {
			if s, err := strconv.Unquote(l.Value); err == nil {
				out = append(out, s)
			}
		}
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if s, ok := n.Fun.(*ast.SelectorExpr); ok && len(n.Args) > 0 && (s.Sel.Name == "Errorf" || s.Sel.Name == "New" || s.Sel.Name == "Sprintf") {
				take(n.Args[0])
			}
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Reason" {
				take(n.Value)
			}
		}
		return true
	})
	return out
}

func readTroubleshooting(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Whoever meets a message finds it.
func TestEveryMessageIsThere(t *testing.T) {
	text := readTroubleshooting(t)
	used := map[string]bool{}
	found := 0
	for _, file := range shown {
		for _, format := range formats(t, file) {
			piece := longest(format)
			switch _, skip := unseen[piece]; {
			case skip:
				used[piece] = true
			case len(piece) < leastPiece:
			case strings.Contains(text, piece):
				found++
			default:
				t.Errorf("%s: %q is not in troubleshooting.md", file, piece)
			}
		}
	}
	if found < 80 {
		t.Errorf("%d messages found", found)
	}
	for piece := range unseen {
		if !used[piece] {
			t.Errorf("no message has %q", piece)
		}
	}
}

// Each reason of the scheduler, event of the plugin and refusal of the chart is
// there.
func TestEveryReasonIsThere(t *testing.T) {
	text := readTroubleshooting(t)
	want := map[string]bool{}
	for r := amd.Reason(0); !strings.HasPrefix(r.String(), "Reason"); r++ {
		want[r.String()] = true
	}
	events, err := os.ReadFile(root + "/plugin/events.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`= "(AMDGPU\w+)"`).FindAllStringSubmatch(string(events), -1) {
		want[m[1]] = true
	}
	chart, err := os.ReadFile(root + "/examples/deviceplugin/chart/templates/validation.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`fail (?:\(printf )?("(?:[^"\\]|\\.)*")`).FindAllStringSubmatch(string(chart), -1) {
		format, err := strconv.Unquote(m[1])
		if err != nil {
			t.Fatal(err)
		}
		want[longest(strings.TrimSpace(regexp.MustCompile(`^\S+ `).ReplaceAllString(format, "")))] = true
	}
	if len(want) < 13+5+8 {
		t.Fatalf("%d reasons, events and refusals", len(want))
	}
	for w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("troubleshooting.md does not have %q", w)
		}
	}
}

// others are what other programs say.
const others = `values don't meet the specifications of the schema(s) no matches for kind "ServiceMonitor" "PrometheusRule"
 hipErrorOutOfMemory UnexpectedAdmissionError FilteringFailed BindingFailed restartPolicy`

// literals are all the text that the repository's programs can say.
func literals(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	all.WriteString(others)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "e2e" || d.Name() == "testdata"):
			return fs.SkipDir
		case filepath.Base(path) == "validation.yaml":
			text, err := os.ReadFile(path)
			all.WriteString(strings.ReplaceAll(string(text), `\"`, `"`))
			return err
		case filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
				if s, err := strconv.Unquote(l.Value); err == nil {
					all.WriteString(verb.ReplaceAllString(s, "\x00") + "\n")
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

// No message is there that nobody says.
func TestMessagesExist(t *testing.T) {
	said := literals(t)
	looked := 0
	for line := range strings.Lines(readTroubleshooting(t)) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		first, _, _ := strings.Cut(line[2:], " | ")
		for _, m := range code.FindAllStringSubmatch(first, -1) {
			for piece := range strings.SplitSeq(m[1], "…") {
				if piece = strings.Trim(piece, " :;,"); len(piece) < leastPiece {
					continue
				}
				looked++
				if !strings.Contains(said, piece) {
					t.Errorf("nothing says %q", piece)
				}
			}
		}
	}
	if looked < 80 {
		t.Errorf("%d messages looked at", looked)
	}
}
