package web

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/inspect"
	"github.com/Project-HAMi/hami-amd/inspect/draw/drawtest"
)

// shots is where to put pictures of the page, to look at.
var shots = flag.String("shots", "", "folder for screenshots; none are taken if empty")

var (
	amdctl string // the binary
	// browser is the one all tests share, each with tabs of its own.
	browser = sync.OnceValues(func() (*Browser, error) { return Start(context.Background()) })
)

func TestMain(m *testing.M) {
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	flag.Parse()
	dir, err := os.MkdirTemp("", "web-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	amdctl = filepath.Join(dir, "amdctl")
	build := exec.Command("go", "build", "-C", "../..", "-o", amdctl, "./examples/amdctl")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building amdctl: %v\n%s", err, out)
		return 1
	}
	code := m.Run()
	if b, err := browser(); err == nil {
		b.Stop()
	}
	return code
}

// drawn is a page that amdctl has written, and what it is of.
type drawn struct {
	url     string
	cluster *inspect.Cluster
}

// drawPage runs amdctl on a cluster, as an operator does.
func drawPage(t *testing.T, nodes []*corev1.Node, pods []*corev1.Pod) drawn {
	t.Helper()
	list := struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Items      []any  `json:"items"`
	}{APIVersion: "v1", Kind: "List"}
	for _, n := range nodes {
		list.Items = append(list.Items, n)
	}
	for _, p := range pods {
		list.Items = append(list.Items, p)
	}
	data, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	in, out := filepath.Join(dir, "cluster.json"), filepath.Join(dir, "page.html")
	if err := os.WriteFile(in, data, 0o644); err != nil {
		t.Fatal(err)
	}
	page, err := os.Create(out)
	if err != nil {
		t.Fatal(err)
	}
	defer page.Close()
	cmd := exec.Command(amdctl, "draw", "--cluster", in, "--at", drawtest.Now().Format(time.RFC3339), "-o", "html")
	cmd.Stdout, cmd.Stderr = page, os.Stderr
	start := time.Now()
	if err := cmd.Run(); err != nil {
		t.Fatalf("amdctl draw: %v", err)
	}
	if info, err := page.Stat(); err == nil {
		t.Logf("amdctl draws %d nodes and %d pods in %d ms: a page of %d kB", len(nodes), len(pods), time.Since(start).Milliseconds(), info.Size()/1000)
	}
	return drawn{"file://" + out, inspect.New(nodes, pods, inspect.Options{Now: drawtest.Now()})}
}

// drawSample is a page of a cluster with a few problems.
func drawSample(t *testing.T, nodes int) drawn {
	t.Helper()
	objects, pods, err := drawtest.Cluster(drawtest.Options{Nodes: nodes, Planted: true})
	if err != nil {
		t.Fatal(err)
	}
	return drawPage(t, objects, pods)
}

var (
	desktop = Screen{Width: 1440, Height: 900}
	phone   = Screen{Width: 360, Height: 740, Phone: true}
)

// inTheDark is a screen of somebody who prefers it.
func inTheDark(s Screen) Screen {
	s.Dark = true
	return s
}

// newTab opens a tab, and checks at the end of the test that the page has kept
// to itself.
func newTab(t *testing.T, s Screen) *Tab {
	t.Helper()
	b, err := browser()
	if err != nil {
		t.Fatal(err)
	}
	tab, err := b.Tab(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		complaints, requests := tab.Heard()
		tab.Close()
		if len(complaints) > 0 {
			t.Errorf("the browser complains: %q", complaints)
		}
		if len(requests) != 1 {
			t.Errorf("requests for %q, want the page alone", requests)
		}
	})
	return tab
}

func eval[T any](t *testing.T, tab *Tab, expression string) T {
	t.Helper()
	v, err := Eval[T](tab, expression)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// shoot takes a picture if pictures are wanted.
func shoot(t *testing.T, tab *Tab, name string) {
	t.Helper()
	if *shots == "" {
		return
	}
	png, err := tab.Screenshot()
	if err == nil {
		err = os.WriteFile(filepath.Join(*shots, name+".png"), png, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
