package plugin

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/cumask"
)

func newTestLedger(t *testing.T) (*ledger, string) {
	t.Helper()
	dir := t.TempDir()
	l, broken, err := openLedger(dir)
	if err != nil || broken != nil {
		t.Fatal(err, broken)
	}
	t.Cleanup(l.close)
	return l, dir
}

// onDisk is what a plugin that starts now would find.
func onDisk(t *testing.T, dir string) map[types.UID]*record {
	t.Helper()
	l, broken, err := openLedger(dir)
	if err != nil || broken != nil {
		t.Fatal(err, broken)
	}
	defer l.close()
	return l.all()
}

func TestLedgerKeepsMemoryAndDiskAlike(t *testing.T) {
	l, dir := newTestLedger(t)
	records := testRecords()
	check := func(what string, want map[types.UID]*record) {
		t.Helper()
		for where, got := range map[string]map[types.UID]*record{"memory": l.all(), "disk": onDisk(t, dir)} {
			if diff := cmp.Diff(want, got, sameRecords); diff != "" {
				t.Errorf("%s, %s (-want +got):\n%s", what, where, diff)
			}
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check("new", map[types.UID]*record{})
	must(l.update(records))
	check("two put", records)
	before := l.get("u1")
	must(l.put("u1", records["u2"]))
	check("one replaced", map[types.UID]*record{"u1": records["u2"], "u2": records["u2"]})
	must(l.restore("u1", before))
	check("and restored", records)
	must(l.restore("u1", nil))
	check("taken back", map[types.UID]*record{"u2": records["u2"]})
	must(l.forget("u1", "u2", "u3"))
	check("forgotten", map[types.UID]*record{})
}

func TestLedgerWithoutDisk(t *testing.T) {
	l, dir := newTestLedger(t)
	records := testRecords()
	if err := l.put("u1", records["u1"]); err != nil {
		t.Fatal(err)
	}
	blocked := filepath.Join(dir, "vgpu", stateNextName)
	if err := os.Mkdir(blocked, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := l.put("u2", records["u2"]); err == nil {
		t.Error("put without a disk: no error")
	}
	if l.get("u2") != nil {
		t.Error("what is not on disk is in memory")
	}
	if err := l.restore("u1", nil); err == nil {
		t.Error("restore without a disk: no error")
	}
	if l.get("u1") != nil {
		t.Error("what was taken back is in memory")
	}
	if onDisk(t, dir)["u1"] == nil {
		t.Error("want the disk to remember too much rather than too little")
	}
}

func TestLedgerFindsByDeviceIDs(t *testing.T) {
	l, _ := newTestLedger(t)
	with := func(containers map[string][]string) *record {
		r := &record{namespace: "ns", name: "p", cus: map[string]cumask.Set{}, containers: make(map[string]annotations.ContainerCUs)}
		for name, ids := range containers {
			r.containers[name] = annotations.ContainerCUs{IDs: ids}
		}
		return r
	}
	err := l.update(map[types.UID]*record{
		"u1": with(map[string][]string{"one": {"a#0"}, "two": {"a#1", "b#1"}}),
		"u2": with(map[string][]string{"init": {"c#0"}, "app": {"c#0"}}),
		"u3": with(map[string][]string{"one": {"a#0"}}),
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		ids  []string
		want []recordedContainer
	}{
		"exactly":        {ids: []string{"a#0"}, want: []recordedContainer{{"u1", "one"}}},
		"in any order":   {ids: []string{"b#1", "a#1"}, want: []recordedContainer{{"u1", "two"}}},
		"fewer":          {ids: []string{"a#1"}},
		"more":           {ids: []string{"a#1", "b#1", "c#0"}},
		"two containers": {ids: []string{"c#0"}, want: []recordedContainer{{"u2", "app"}, {"u2", "init"}}},
		"none":           {},
	} {
		live := func(uid types.UID) bool { return uid != "u3" }
		if diff := cmp.Diff(tt.want, l.find(tt.ids, live), cmp.AllowUnexported(recordedContainer{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestRecordInAnnotations(t *testing.T) {
	r := testRecords()["u1"]
	cus, containers, err := r.annotations()
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		cus, containers string
		want            bool
	}{
		"as written":         {cus, containers, true},
		"spelled otherwise":  {` { "A" : "0-74,75" } `, containers, true},
		"fewer CUs":          {`{"A":"0-74"}`, containers, false},
		"another device":     {`{"B":"0-75"}`, containers, false},
		"one more device":    {`{"A":"0-75","B":"1"}`, containers, false},
		"broken":             {`{"A":`, containers, false},
		"removed":            {"", containers, false},
		"containers removed": {cus, "", false},
		"other IDs":          {cus, `{"main":{"ids":["x"],"cus":{"A":"0-75"}}}`, false},
		"other CUs":          {cus, `{"main":{"ids":["0000:05:00.0#3"],"cus":{"A":"0-7"}}}`, false},
	} {
		a := map[string]string{annotations.CUAllocatedKey: tt.cus, annotations.CUContainersKey: tt.containers}
		if got := r.in(a); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
	unknown := &record{cus: r.cus}
	if !unknown.in(map[string]string{annotations.CUAllocatedKey: cus}) {
		t.Error("a record without containers: want the pod's CUs to be enough")
	}
}
