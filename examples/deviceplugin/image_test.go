package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	buildLine = regexp.MustCompile(`(?m)^RUN go build .* -o /out/(\S+) (\S+)$`)
	hookLine  = regexp.MustCompile(`(?m)^COPY --from=hook \S+ (\S+)$`)
	entryLine = regexp.MustCompile(`(?m)^ENTRYPOINT \["(.*)"\]$`)
)

// The programs that the chart starts are those the image has, and they are
// built from folders of this repository.
func TestImageHasWhatTheChartStarts(t *testing.T) {
	dockerfile, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	var programs []string
	for _, m := range buildLine.FindAllStringSubmatch(string(dockerfile), -1) {
		programs = append(programs, "/"+m[1])
		if _, err := os.Stat(filepath.Join("../..", m[2], "main.go")); err != nil {
			t.Errorf("%s: %v", m[1], err)
		}
	}
	pod := daemonSet(t, "testdata/rendered/monitor.yaml", pluginSet).Spec.Template.Spec
	monitor := daemonSet(t, "testdata/rendered/monitor.yaml", monitorSet).Spec.Template.Spec
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers, monitor.Containers) {
		if len(c.Command) != 1 || !slices.Contains(programs, c.Command[0]) {
			t.Errorf("%s starts %q, the image has %q", c.Name, c.Command, programs)
		}
	}
	if m := entryLine.FindSubmatch(dockerfile); m == nil || string(m[1]) != pod.Containers[0].Command[0] {
		t.Errorf("the image starts %q, the chart %q", m, pod.Containers[0].Command)
	}
}

// The image has the hook where the installer looks for it.
func TestImageHasTheHookWhereItIsLookedFor(t *testing.T) {
	dockerfile, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	installer, err := os.ReadFile("hookinstaller/main.go")
	if err != nil {
		t.Fatal(err)
	}
	m := hookLine.FindSubmatch(dockerfile)
	if m == nil {
		t.Fatal("no line copies the hook")
	}
	want := regexp.QuoteMeta(filepath.Dir(string(m[1])) + "/")
	if filepath.Base(string(m[1])) != "libamvgpu.so" || !regexp.MustCompile(`"`+want+`"\+hook\.Library`).Match(installer) {
		t.Errorf("the image has the hook at %s, the installer looks elsewhere", m[1])
	}
}

// A clientset registers every type of Kubernetes, which makes the plugin twice
// as large: 53 MB.
func TestPluginHasNoClientset(t *testing.T) {
	deps, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := strings.Fields(string(deps))
	if !slices.Contains(packages, "k8s.io/client-go/rest") {
		t.Fatalf("no client among %d packages", len(packages))
	}
	for _, pkg := range packages {
		if strings.HasPrefix(pkg, "k8s.io/client-go/kubernetes") {
			t.Errorf("the plugin imports %s", pkg)
		}
	}
}

// Whatever brings html/template back into the plugin makes it larger by a
// quarter.
func TestImageLeavesTemplatesOut(t *testing.T) {
	dockerfile, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	tags := regexp.MustCompile(`(?m)^RUN go build -tags (\S+) .* -o /out/k8s-device-plugin `).FindSubmatch(dockerfile)
	if tags == nil {
		t.Fatal("the plugin is built without tags")
	}
	deps, err := exec.Command("go", "list", "-deps", "-tags", string(tags[1]), ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range strings.FieldsSeq(string(deps)) {
		if pkg == "text/template" || pkg == "html/template" {
			t.Errorf("the plugin imports %s", pkg)
		}
	}
}
