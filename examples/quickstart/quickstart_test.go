package main

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/cumask"
	"github.com/Project-HAMi/hami-amd/examples/pods"
	"github.com/Project-HAMi/hami-amd/internal/fixture/fixturetest"
)

var now = time.Unix(1787300000, 0)

// place puts all examples on a fresh node.
func place(t *testing.T) (*cluster, []placement) {
	t.Helper()
	c, err := newCluster(fixturetest.Machine(t, "mi300x-spx-8"))
	if err != nil {
		t.Fatal(err)
	}
	placements, err := c.addExamples(now)
	if err != nil {
		t.Fatal(err)
	}
	return c, placements
}

func output(t *testing.T, term terminal, c *cluster, placements []placement) string {
	t.Helper()
	var b strings.Builder
	if err := write(&b, term, c, placements); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

var escape = regexp.MustCompile("\x1b\\[[0-9;]*m")

func TestOutputFitsTheTerminal(t *testing.T) {
	c, placements := place(t)
	for _, width := range []int{80, 100, 120} {
		out := output(t, terminal{width: width}, c, placements)
		for line := range strings.Lines(out) {
			line = strings.TrimSuffix(line, "\n")
			if n := utf8.RuneCountInString(line); n > width {
				t.Errorf("width %d: a line of %d: %s", width, n, line)
			}
			if strings.TrimRight(line, " ") != line {
				t.Errorf("width %d: blanks at the end of %q", width, line)
			}
		}
		if escape.MatchString(out) {
			t.Errorf("width %d: escape sequences without colour", width)
		}
	}
}

func TestColourChangesOnlyColours(t *testing.T) {
	c, placements := place(t)
	plain, coloured := output(t, terminal{width: 100}, c, placements), output(t, terminal{width: 100, color: true}, c, placements)
	if !escape.MatchString(coloured) {
		t.Fatal("no colours on a terminal")
	}
	if got := escape.ReplaceAllString(coloured, ""); got != plain {
		t.Errorf("text differs with colours:\n%s", got)
	}
}

func TestOutputTellsTheWholeStory(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	var b strings.Builder
	if err := run(&b, terminal{width: 100}, now); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(left) > 0 {
		t.Errorf("%d entries are left in the temporary folder", len(left))
	}

	out := b.String()
	for _, want := range []string{
		"hami.io/node-amd-register", "hami.io/amd-devices-allocated", "hami.io/amd-cu-allocated",
		"ROCR_VISIBLE_DEVICES=GPU-", "HIP_VISIBLE_DEVICES=0,1", "HSA_CU_MASK=0:", "HIP_DEVICE_MEMORY_LIMIT_1=",
		"HIP_DEVICE_MEMORY_SHARED_CACHE=", "LD_AUDIT=", "defaultCores: 0", "effective CUs are", "columns are nominal",
		"/dev/kfd", "memory only", "whole", "CardInsufficientMemory", "11 of 12 pods are placed",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the output does not show %q", want)
		}
	}
	all, err := pods.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range all {
		if !strings.Contains(out, pod.Name+"  examples/pods/"+pod.File) {
			t.Errorf("the output does not show pod %q", pod.Name)
		}
	}
	c, placements := place(t)
	if again := output(t, terminal{width: 100}, c, placements); again != out {
		t.Error("a second run prints something else")
	}
}

var update = flag.Bool("update", false, "rewrite the golden file in testdata")

func TestOutput(t *testing.T) {
	c, placements := place(t)
	got := output(t, terminal{width: 100}, c, placements)
	file := filepath.Join("testdata", "quickstart.golden")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// What each container was granted is on its own lines: the table and the
// details cannot tell different stories.
func TestEveryMaskAndLimitIsShown(t *testing.T) {
	c, placements := place(t)
	out := output(t, terminal{width: 160}, c, placements)
	summary, details, _ := strings.Cut(out, "2. The node registers")
	for _, p := range placements {
		if p.plan == nil {
			continue
		}
		_, pod, _ := strings.Cut(details, p.Name+"  examples/pods/")
		pod, _, _ = strings.Cut(pod, "\n\n")
		for _, key := range []string{annotations.AllocatedKey, annotations.CUAllocatedKey} {
			if value := p.Annotations[key]; !strings.Contains(strings.ReplaceAll(pod, "\n      ", ""), value) {
				t.Errorf("%s: %s %s is not shown in\n%s", p.Name, key, value, pod)
			}
		}
		for _, ctr := range p.plan.Containers {
			for _, v := range ctr.Env {
				if line := v.Name + "=" + v.Value; !strings.Contains(pod, line) && !(slices.Contains(alike, v.Name) && strings.Contains(details, line)) {
					t.Errorf("%s: %s is not shown", p.Name, line)
				}
			}
			if len(ctr.Devices) > 0 && !strings.Contains(summary, c.gets(ctr)) {
				t.Errorf("%s: the table does not say that %s gets %s", p.Name, ctr.Name, c.gets(ctr))
			}
		}
	}
	if lines := strings.Count(out, "\n"); lines > 250 {
		t.Errorf("%d lines", lines)
	}
}

// No two pods of the example share a CU, and only the pod that is too large is
// pending.
func TestPodsAreApart(t *testing.T) {
	c, placements := place(t)
	used := map[string]cumask.Set{}
	for _, p := range placements {
		if p.plan == nil {
			if p.Name != "too-large" {
				t.Errorf("%s is pending: %s", p.Name, p.decision.Reason())
			}
			continue
		}
		for id, cus := range p.plan.CUs {
			if clash := used[id].Intersect(cus); !clash.Empty() {
				t.Errorf("%s shares CUs %s of GPU %d", p.Name, clash, c.index(id))
			}
			used[id] = used[id].Union(cus)
		}
	}
	if len(used) != 8 {
		t.Errorf("%d GPUs are used, want all 8 in the picture", len(used))
	}
}

func TestTerminal(t *testing.T) {
	f, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for name, tc := range map[string]struct {
		env  map[string]string
		want terminal
	}{
		"file":              {nil, terminal{width: 100}},
		"file with columns": {map[string]string{"COLUMNS": "90"}, terminal{width: 90}},
		"far too narrow":    {map[string]string{"COLUMNS": "3"}, terminal{width: 80}},
		"far too wide":      {map[string]string{"COLUMNS": "4000"}, terminal{width: 160}},
		"no number":         {map[string]string{"COLUMNS": "wide"}, terminal{width: 100}},
	} {
		got := terminalOf(f, func(name string) (string, bool) { v, ok := tc.env[name]; return v, ok })
		if got != tc.want {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
}

func TestFold(t *testing.T) {
	for text, want := range map[string][]string{
		"short":                {"short"},
		"aaaa,bbbb,cccc":       {"aaaa,bbbb,", "cccc"},
		"aaaaaaa:bbbbbbb":      {"aaaaaaa:", "bbbbbbb"},
		"aaaaaaaaaaaaaaa":      {"aaaaaaaaaa", "aaaaa"},
		"/dev/a /dev/b /dev/c": {"/dev/a", "/dev/b", "/dev/c"},
	} {
		got := fold(text, 10, memberEnds)
		if strings.Join(got, "|") != strings.Join(want, "|") {
			t.Errorf("fold(%q) = %q, want %q", text, got, want)
		}
	}
	// A grant stays on one line as long as it fits.
	got := fold("A,T,163,76:B,T,163,76:;C,T,1,8:;", 15, grantEnds)
	if want := "A,T,163,76:|B,T,163,76:;|C,T,1,8:;"; strings.Join(got, "|") != want {
		t.Errorf("grants are folded as %q, want %q", got, want)
	}
}

type fullDisk struct{}

var errFull = errors.New("disk is full")

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

func TestWriteErrorEndsTheRun(t *testing.T) {
	c, placements := place(t)
	if err := write(fullDisk{}, terminal{width: 80}, c, placements); !errors.Is(err, errFull) {
		t.Errorf("got %v, want the writer's error", err)
	}
}

// emptyWhenWritten is a reader that goes away at once, as head(1) does. It looks
// whether the program would leave anything behind.
type emptyWhenWritten struct {
	t   *testing.T
	dir string
}

func (w emptyWhenWritten) Write([]byte) (int, error) {
	left, err := os.ReadDir(w.dir)
	if err != nil || len(left) > 0 {
		w.t.Errorf("while printing there are %v, %v in the temporary folder, want nothing", left, err)
	}
	return 0, os.ErrClosed
}

func TestNothingIsLeftBehindByAClosedPipe(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	if err := run(emptyWhenWritten{t, dir}, terminal{width: 100}, now); !errors.Is(err, os.ErrClosed) {
		t.Errorf("found %v, want the writer's error", err)
	}
}
