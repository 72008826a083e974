package docs

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// words splits a command as a shell does, as far as the documents need it.
func words(line string) []string {
	var out []string
	var word strings.Builder
	quote, has := rune(0), false
	for _, c := range line {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '\'' || c == '"':
			quote, has = c, true
		case c == ' ':
			if has || word.Len() > 0 {
				out = append(out, word.String())
			}
			word.Reset()
			has = false
		default:
			word.WriteRune(c)
		}
	}
	if has || word.Len() > 0 {
		out = append(out, word.String())
	}
	return out
}

// kubectl has the flags of each subcommand, with those that take a value true.
var kubectl = map[string]map[string]bool{
	"get":            {"-o": true, "-A": false, "-l": true, "--field-selector": true},
	"describe":       {},
	"logs":           {"-l": true, "--tail": true},
	"wait":           {"-l": true, "--field-selector": true, "--for": true, "--timeout": true},
	"annotate":       {"--overwrite": false},
	"apply":          {"-f": true},
	"delete":         {"-l": true, "--field-selector": true},
	"drain":          {"--ignore-daemonsets": false, "--delete-emptydir-data": false},
	"uncordon":       {},
	"exec":           {"--": false},
	"rollout status": {},
}

// command is one as the reader types it, apart.
type command struct {
	verb  string
	args  []string
	flags map[string]string
}

// parseCommand tells arguments and flags of a subcommand apart. Flags that it
// does not have are errors.
func parseCommand(list []string, subcommands map[string]map[string]bool, global map[string]bool) (command, error) {
	c := command{flags: map[string]string{}}
	known := global
	for i := 0; i < len(list); i++ {
		word := list[i]
		name, value, given := strings.Cut(word, "=")
		takes, ok := known[name]
		if !ok {
			takes, ok = global[name]
		}
		switch {
		case word == ">":
			return c, nil
		case strings.HasPrefix(word, "-") && !ok:
			return c, fmt.Errorf("%s has no flag %s", c.verb, name)
		case ok && takes && !given:
			if i++; i == len(list) {
				return c, fmt.Errorf("%s wants a value", name)
			}
			c.flags[name] = list[i]
		case ok:
			c.flags[name] = value
		case c.verb == "":
			c.verb = word
			if i+1 < len(list) && subcommands[word+" "+list[i+1]] != nil {
				i++
				c.verb += " " + list[i]
			}
			if known = subcommands[c.verb]; known == nil {
				return c, fmt.Errorf("no subcommand %s", c.verb)
			}
		default:
			c.args = append(c.args, word)
		}
	}
	return c, nil
}

// installed is all that the chart makes.
func installed(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(root + "/examples/deviceplugin/testdata/rendered/monitor-prometheus.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func checkKubectl(list []string, chart string) error {
	c, err := parseCommand(list, kubectl, map[string]bool{"-n": true})
	if err != nil {
		return err
	}
	if ns := c.flags["-n"]; ns != "" && ns != "default" && !strings.Contains(chart, "namespace: "+ns+"\n") {
		return fmt.Errorf("nothing is in namespace %s", ns)
	}
	if file := c.flags["-f"]; file != "" {
		if _, err := os.Stat(root + "/" + file); err != nil {
			return err
		}
	}
	if label, value, ok := strings.Cut(c.flags["-l"], "="); ok && !strings.Contains(chart, " "+label+": "+value+"\n") {
		return fmt.Errorf("no pod has the label %s=%s", label, value)
	}
	if name, value, ok := strings.Cut(c.flags["--field-selector"], "="); ok && (value == "" || !slices.Contains([]string{"reason", "involvedObject.name", "spec.nodeName"}, name)) {
		return fmt.Errorf("field selector %s=%s", name, value)
	}
	for i, arg := range c.args {
		kind, name, ok := strings.Cut(arg, "/")
		if !ok && i == 0 {
			continue
		}
		if !ok {
			kind, name = c.args[i-1], arg
		}
		if kind == "daemonset" && !strings.Contains(chart, "kind: DaemonSet\nmetadata:\n  name: "+name+"\n") {
			return fmt.Errorf("the chart has no DaemonSet %s", name)
		}
	}
	return nil
}

// checkAmdctl asks amdctl itself: with -h it parses nothing else, so the flags
// are looked up in its help.
func checkAmdctl(list []string) error {
	bin, err := amdctl()
	if err != nil {
		return err
	}
	help, err := exec.Command(bin, list[0], "-h").Output()
	if err != nil || !strings.Contains(string(help), "amdctl "+list[0]) {
		return fmt.Errorf("amdctl has no command %s", list[0])
	}
	for _, word := range list[1:] {
		if name, _, _ := strings.Cut(word, "="); strings.HasPrefix(name, "-") && !regexp.MustCompile(`(?m)^ .*`+regexp.QuoteMeta(name)+`[ ,]`).Match(help) {
			return fmt.Errorf("amdctl %s has no flag %s", list[0], name)
		}
	}
	return nil
}

func checkHelm(list []string) error {
	c, err := parseCommand(list, map[string]map[string]bool{
		"upgrade":   {"--install": false, "--set": true},
		"uninstall": {},
	}, map[string]bool{"--namespace": true})
	if err != nil {
		return err
	}
	if len(c.args) == 0 || c.args[0] != "amd-gpu" || c.flags["--namespace"] != "kube-system" {
		return fmt.Errorf("want release amd-gpu in kube-system, found %v", c)
	}
	if c.verb == "upgrade" {
		_, err = os.Stat(root + "/" + c.args[1] + "/Chart.yaml")
	}
	return err
}

// inner is a command whose output is an argument of another.
var inner = regexp.MustCompile(`\$\(([^()]*)\)`)

func checkCluster(line, chart string) error {
	if m := inner.FindStringSubmatch(line); m != nil {
		if err := checkCluster(m[1], chart); err != nil {
			return err
		}
		return checkCluster(inner.ReplaceAllString(line, "pod/its-answer"), chart)
	}
	list := words(line)
	switch list[0] {
	case "kubectl":
		if list[1] == "amd" {
			return checkAmdctl(list[2:])
		}
		return checkKubectl(list[1:], chart)
	case "amdctl":
		return checkAmdctl(list[1:])
	case "go":
		if len(list) != 5 || list[1] != "build" || list[2] != "-o" {
			return fmt.Errorf("want go build -o FILE PACKAGE")
		}
		_, err := os.Stat(root + "/" + list[4])
		return err
	case "helm":
		return checkHelm(list[1:])
	case "docker":
		c, err := parseCommand(list[1:], map[string]map[string]bool{"build": {"-f": true, "-t": true}}, nil)
		if err == nil {
			_, err = os.Stat(root + "/" + c.flags["-f"])
		}
		return err
	case "cat", "grep": // files of a node
		for _, word := range list[1:] {
			if strings.HasPrefix(word, "/") && !strings.HasPrefix(word, "/sys/fs/cgroup/") {
				return fmt.Errorf("%s is no file of a node", word)
			}
		}
		return nil
	}
	return fmt.Errorf("%s is not known here", list[0])
}

// Commands for a cluster have the flags that they are given, and name what the
// chart makes. Values and keys in them are checked with all others, and package
// chartcheck renders the chart with what follows --set.
func TestClusterCommands(t *testing.T) {
	chart := installed(t)
	checked := 0
	each(t, "sh", "cluster", func(t *testing.T, b block) {
		for line := range strings.Lines(b.text) {
			if line = strings.TrimSpace(line); line == "" {
				continue
			}
			checked++
			if err := checkCluster(line, chart); err != nil {
				t.Errorf("%s:%d: %s: %v", b.file, b.line, line, err)
			}
		}
	})
	if checked < 20 {
		t.Errorf("%d commands", checked)
	}
}

func TestWrongClusterCommands(t *testing.T) {
	chart := installed(t)
	for _, line := range []string{
		"kubectl get pods --show-everything",
		"kubectl fetch pods",
		"kubectl -n nowhere logs daemonset/k8s-vgpu-monitor",
		"kubectl -n kube-system logs daemonset/amd-device-plugin",
		"kubectl -n kube-system describe daemonset monitor",
		"kubectl -n kube-system get pods -l name=amd-gpu",
		"kubectl get pods -l",
		"kubectl get pods --field-selector node=n",
		"kubectl logs $(kubectl get pods -l name=amd-gpu -o name)",
		"kubectl logs --all $(kubectl get pods -o name)",
		"kubectl apply -f examples/pods/missing.yaml",
		"helm upgrade amd-gpu examples/chart --namespace kube-system",
		"helm upgrade amd-gpu examples/deviceplugin/chart",
		"helm uninstall amd-gpu --namespace kube-system --now",
		"docker build -f Dockerfile .",
		"cat /etc/passwd",
		"make install",
		"amdctl verify --clusters cluster.yaml",
		"amdctl check --cluster cluster.yaml",
		"kubectl amd explain notebook --ns default",
		"go build -o kubectl-amd ./examples/kubectl",
	} {
		if err := checkCluster(line, chart); err == nil {
			t.Errorf("%s is accepted", line)
		}
	}
	if err := checkCluster(`kubectl get nodes -o custom-columns='NODE:.metadata.name' > "a b"`, chart); err != nil {
		t.Error(err)
	}
}
