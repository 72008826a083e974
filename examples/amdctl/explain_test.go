package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/Project-HAMi/hami-amd/inspect"
)

// pending is the clean cluster with pods that have no node yet.
func pending(t *testing.T) string {
	t.Helper()
	pods, err := os.ReadFile("testdata/pending.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return clean(t) + "---\n" + string(pods)
}

func TestExplain(t *testing.T) {
	cluster := pending(t)
	for pod, name := range map[string]string{
		"team-a/eight-gpus":  "explain-pending",
		"team-b/eight-gpus":  "explain-type",
		"default/fits":       "explain-fits",
		"team-c/refused":     "explain-refused",
		"team-c/web":         "explain-no-gpu",
		"team-b/train-0":     "explain-placed",
		"team-b/done-1":      "explain-finished",
		"team-a/chat-7d9f":   "explain-shared",
		"pod/chat-7d9f":      "explain-shared",
		"train-0":            "explain-placed",
		"pods/train-0":       "explain-placed",
		"default/fits --all": "explain-fits",
	} {
		t.Run(pod, func(t *testing.T) {
			args := append([]string{"explain", "--cluster", "-"}, strings.Fields(pod)...)
			golden(t, name, ok(t, cluster, args...))
		})
	}
	golden(t, "explain-pending-json", ok(t, cluster, "explain", "eight-gpus", "-n", "team-a", "--cluster", "-", "-o", "json"))
	golden(t, "explain-placed-json", ok(t, cluster, "explain", "team-b/train-0", "--cluster", "-", "-o", "json"))
	golden(t, "explain-wrong", ok(t, "", "explain", "edited-1", "--nodes", nodesFile, "--pods", podsFile))
}

// What explain proposes is placed by fit.
func TestExplainProposesWhatFits(t *testing.T) {
	cluster := pending(t)
	var answer inspect.Explanation
	if err := json.Unmarshal([]byte(ok(t, cluster, "explain", "team-a/eight-gpus", "--cluster", "-", "-o", "json").stdout), &answer); err != nil {
		t.Fatal(err)
	}
	if len(answer.Smaller) == 0 {
		t.Fatal("nothing is proposed")
	}
	path := file(t, "cluster.yaml", clean(t))
	for _, change := range answer.Smaller {
		limits := map[string]string{"amd.com/gpu": "8", "amd.com/gpumem": "180000", "amd.com/gpucores": "60"}
		for name, value := range change.Limits {
			limits[name] = value
		}
		text, err := json.Marshal(limits)
		if err != nil {
			t.Fatal(err)
		}
		pod := `{"kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"main","resources":{"limits":` + string(text) + `}}]}}`
		if f := fitAnswer(t, pod, "fit", "--nodes", path, "--pods", path, "--pod", "-"); f.Node != change.Node {
			t.Errorf("%s: fit says node %q (%s), want %q", change.Text, f.Node, f.Reason, change.Node)
		}
	}
}

// Many nodes are answered for, and the GPUs of the first few printed.
func TestExplainBoundsItsText(t *testing.T) {
	var b strings.Builder
	for i := range 30 {
		b.WriteString(strings.ReplaceAll(strings.ReplaceAll(oneGPU, `"n1"`, `"n`+string(rune('a'+i/10))+string(rune('0'+i%10))+`"`), `\"A\"`, `\"A`+string(rune('a'+i))+`\"`))
		b.WriteString("\n---\n")
	}
	b.WriteString(`{"kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","resources":{"limits":{"amd.com/gpu":9}}}]}}`)
	few := ok(t, b.String(), "explain", "p", "--cluster", "-").stdout
	every := ok(t, b.String(), "explain", "p", "--cluster", "-", "--all").stdout
	if n := strings.Count(few, "\nnode n"); n != mostNodes || !strings.Contains(few, "The GPUs of 22 more nodes are left out") {
		t.Errorf("the GPUs of %d nodes are printed:\n%s", n, few)
	}
	if n := strings.Count(every, "\nnode n"); n != 30 {
		t.Errorf("with --all the GPUs of %d nodes are printed", n)
	}
}

func TestExplainRefuses(t *testing.T) {
	broken := file(t, "broken.yaml", "items: [\n")
	for name, tc := range map[string]struct {
		args  []string
		words []string
	}{
		"no pod":               {nil, []string{"want one POD"}},
		"an unknown pod":       {[]string{"team-a/none"}, []string{`"team-a/none"`, "no such pod", "9 of the cluster"}},
		"a pod nowhere":        {[]string{"none"}, []string{`"none"`, "any namespace"}},
		"an ambiguous pod":     {[]string{"eight-gpus"}, []string{"2 of that name", "-n", "team-a, team-b"}},
		"another namespace":    {[]string{"train-0", "-n", "team-a"}, []string{`"team-a/train-0"`, "no such pod"}},
		"two namespaces":       {[]string{"team-b/train-0", "-n", "team-a"}, []string{"team-a", "one namespace"}},
		"no name":              {[]string{"team-a/"}, []string{"NAMESPACE/NAME"}},
		"no namespace":         {[]string{"/train-0"}, []string{"NAMESPACE/NAME"}},
		"an empty name":        {[]string{""}, []string{"NAMESPACE/NAME"}},
		"too many parts":       {[]string{"a/b/c"}, []string{"NAMESPACE/NAME"}},
		"broken YAML":          {[]string{"p", "--cluster", broken}, []string{"broken.yaml", "document 1"}},
		"no cluster":           {[]string{"p", "--cluster", ""}, []string{"--kubeconfig"}},
		"no such policy file":  {[]string{"p", "--config", "none"}, []string{"--config"}},
		"two pods":             {[]string{"a", "b"}, []string{"want one POD"}},
		"a name with a escape": {[]string{"\x1b[31mred"}, []string{"no such pod"}},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"explain", "--cluster", "-"}, tc.args...)
			refused(t, pending(t), args, tc.words...)
		})
	}
}

func TestExplainLive(t *testing.T) {
	fakeKubectl(t, pending(t))
	if r := asPlugin(t, "explain", "train-0"); r.code != 0 || !strings.HasPrefix(r.stdout, "pod team-b/train-0\n  placed") {
		t.Errorf("exit code %d, output %q, notes %q", r.code, r.stdout, r.stderr)
	}
}
