package monitor

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/Project-HAMi/hami-amd/hook"
)

func number(n int32) *int32 { return &n }

func TestParseRegion(t *testing.T) {
	far := make([][]uint64, 700)
	far[0], far[350], far[699] = []uint64{1}, []uint64{2}, []uint64{4}
	for name, tt := range map[string]struct {
		file    regionFile
		devices int
		want    region
	}{
		"one process": {
			regionFile{limits: []uint64{16 * gib}, slots: [][]uint64{{3 * gib}}}, 1,
			region{limits: []uint64{16 * gib}, used: []uint64{3 * gib}},
		},
		"processes of two devices": {
			regionFile{limits: []uint64{gib, 2 * gib}, slots: [][]uint64{{5, 7}, nil, {0, 11}, {13}}}, 2,
			region{limits: []uint64{gib, 2 * gib}, used: []uint64{18, 18}},
		},
		"no process yet":      {regionFile{limits: []uint64{gib}}, 1, region{limits: []uint64{gib}, used: []uint64{0}}},
		"no limit":            {regionFile{slots: [][]uint64{{9}}}, 1, region{limits: []uint64{0}, used: []uint64{9}}},
		"far apart":           {regionFile{slots: far}, 1, region{limits: []uint64{0}, used: []uint64{7}}},
		"a count that is low": {regionFile{slots: [][]uint64{{1}, {2}, {3}}, count: number(0)}, 1, region{limits: []uint64{0}, used: []uint64{6}}},
		"a count that is high": {
			regionFile{slots: [][]uint64{{1}}, count: number(slotCount)}, 1,
			region{limits: []uint64{0}, used: []uint64{1}},
		},
		"the last of 64 devices": {
			regionFile{limits: append(make([]uint64, 63), 5), slots: [][]uint64{append(make([]uint64, 63), 4)}}, 64,
			region{limits: append(make([]uint64, 63), 5), used: append(make([]uint64, 63), 4)},
		},
		"as much as is believed": {regionFile{slots: [][]uint64{{mostBytes}}}, 1, region{limits: []uint64{0}, used: []uint64{mostBytes}}},
	} {
		t.Run(name, func(t *testing.T) {
			b := tt.file.bytes()
			got, err := parseRegion(bytes.NewReader(b), int64(len(b)), tt.devices, new(regionBuffer))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(region{})); diff != "" {
				t.Errorf("region (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseRegionRefuses(t *testing.T) {
	good := regionFile{slots: [][]uint64{{1}}}.bytes()
	for name, tt := range map[string]struct {
		content []byte
		size    int64 // 0 is that of the content
		devices int
		want    string
	}{
		"nothing":                 {nil, 0, 1, "no region"},
		"not written yet":         {make([]byte, regionSize), 0, 1, "no region"},
		"another magic":           {regionFile{magic: 0x484D4931}.bytes(), 0, 1, "want magic 0x484d4932, have 0x484d4931"},
		"a short file":            {good[:regionSize-1], 0, 1, "want 2638400 bytes, have 2638399"},
		"one that was cut":        {good[:regionSlots], regionSize, 1, "unexpected EOF"},
		"one cut in the slots":    {good[:regionSlots+100], regionSize, 1, "unexpected EOF"},
		"too many processes":      {regionFile{count: number(1025)}.bytes(), 0, 1, "want 0 to 1024 processes, have 1025"},
		"fewer than no process":   {regionFile{count: number(-1)}.bytes(), 0, 1, "have -1"},
		"more than any device":    {regionFile{slots: [][]uint64{{mostBytes + 1}}}.bytes(), 0, 1, "want at most 1125899906842624 bytes in use of device 0"},
		"as much in two":          {regionFile{slots: [][]uint64{{mostBytes}, {1}}}.bytes(), 0, 1, "in use of device 0"},
		"a sum that wraps":        {regionFile{slots: [][]uint64{{0, 1}, {0, math.MaxUint64}}}.bytes(), 0, 2, "in use of device 1"},
		"more devices than slots": {good, 0, 65, "want 0 to 64 devices, have 65"},
		"negative devices":        {good, 0, -1, "want 0 to 64 devices, have -1"},
	} {
		t.Run(name, func(t *testing.T) {
			size := tt.size
			if size == 0 {
				size = int64(len(tt.content))
			}
			got, err := parseRegion(bytes.NewReader(tt.content), size, tt.devices, new(regionBuffer))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			if got.used != nil || got.limits != nil {
				t.Errorf("both an error and a region: %+v", got)
			}
		})
	}
}

// A reader that answers less than was asked for, and one that fails.
type brokenReader struct{ err error }

func (b brokenReader) ReadAt([]byte, int64) (int, error) { return 1, b.err }

func TestParseRegionOfABrokenFile(t *testing.T) {
	broken := errors.New("input/output error")
	for want, err := range map[error]error{io.ErrUnexpectedEOF: nil, broken: broken} {
		if _, got := parseRegion(brokenReader{err}, regionSize, 1, new(regionBuffer)); !errors.Is(got, want) {
			t.Errorf("with %v: error %v, want %v", err, got, want)
		}
	}
}

// A container reads what it uses out of the first slots, whoever wrote the rest.
func TestReadRegionReadsLittle(t *testing.T) {
	counter := &countingReader{ReaderAt: bytes.NewReader(regionFile{slots: [][]uint64{{1}, {2}}}.bytes())}
	if _, err := parseRegion(counter, regionSize, 1, new(regionBuffer)); err != nil {
		t.Fatal(err)
	}
	if most := regionSlots + 4 + slotBatch*slotSize; counter.bytes > most {
		t.Errorf("%d bytes were read, want at most %d", counter.bytes, most)
	}
}

type countingReader struct {
	io.ReaderAt
	bytes int
}

func (c *countingReader) ReadAt(b []byte, at int64) (int, error) {
	c.bytes += len(b)
	return c.ReaderAt.ReadAt(b, at)
}

func TestReadRegion(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "hipdevshr.cache")
	if _, err := readRegion(path, 1, new(regionBuffer)); err != errNoRegion {
		t.Errorf("no file: %v, want %v", err, errNoRegion)
	}
	if _, err := readRegion(filepath.Join(path, "below"), 1, new(regionBuffer)); err != errNoRegion {
		t.Errorf("no directory: %v, want %v", err, errNoRegion)
	}
	content := regionFile{limits: []uint64{gib}, slots: [][]uint64{{5}}}.bytes()
	if err := os.WriteFile(path, append(content, "more"...), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := readRegion(path, 1, new(regionBuffer))
	if err != nil || got.used[0] != 5 || got.limits[0] != gib {
		t.Errorf("a longer file: %+v, %v", got, err)
	}
	if err := os.Truncate(path, 100); err != nil {
		t.Fatal(err)
	}
	if _, err := readRegion(path, 1, new(regionBuffer)); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a short file: error %v, want the path in it", err)
	}
}

// The directories are package hook's, which this package may not import.
func TestRegionPathIsTheHooks(t *testing.T) {
	const uid = "6c1a0f4e-0000-4000-8000-000000000001"
	dir, err := hook.ContainerDir("/usr/local", uid, "train-0")
	if err != nil {
		t.Fatal(err)
	}
	got, err := regionPath("/usr/local", uid, "train-0")
	if err != nil || got != filepath.Join(dir, hook.CacheFile) {
		t.Errorf("path %q, %v, want %q in %q", got, err, hook.CacheFile, dir)
	}
	if DefaultHookPath != hook.DefaultHostPath {
		t.Errorf("default %q, want %q", DefaultHookPath, hook.DefaultHostPath)
	}
	for _, name := range []string{"", ".", "..", "a/b", "../x", "a_b", "a\x00", strings.Repeat("a", 121)} {
		if got, err := regionPath("/usr/local", name, "c"); err == nil {
			t.Errorf("pod uid %q: %q", name, got)
		}
		if got, err := regionPath("/usr/local", "u", name); err == nil {
			t.Errorf("container %q: %q", name, got)
		}
	}
}

// FuzzRegion puts what it finds where a region is read: its head, its slots and
// its count.
func FuzzRegion(f *testing.F) {
	good := regionFile{limits: []uint64{gib}, slots: [][]uint64{{1, 2}, nil, {3}}}.bytes()
	f.Add(good[:regionSlots], good[regionSlots:regionSlots+3*slotSize], int32(2), int64(regionSize), 2)
	f.Add([]byte{}, []byte{}, int32(0), int64(0), 0)
	f.Add(good[:60], []byte{1}, int32(-5), int64(math.MaxInt64), 64)
	f.Fuzz(func(t *testing.T, head, slots []byte, count int32, size int64, devices int) {
		content := sparse{head: head, slots: slots, count: count}
		got, err := parseRegion(content, size, devices, new(regionBuffer))
		if err != nil {
			if got.used != nil || got.limits != nil {
				t.Fatalf("both an error and a region: %v", err)
			}
			return
		}
		if size < regionSize || len(got.used) != devices || len(got.limits) != devices {
			t.Fatalf("size %d: %d devices used, %d limits, want %d", size, len(got.used), len(got.limits), devices)
		}
		for i, n := range got.used {
			if n > mostBytes {
				t.Fatalf("device %d uses %d", i, n)
			}
		}
		again, err := parseRegion(content, size, devices, new(regionBuffer))
		if diff := cmp.Diff(got, again, cmp.AllowUnexported(region{})); err != nil || diff != "" {
			t.Fatalf("the second time: %v\n%s", err, diff)
		}
	})
}

// sparse is a file of the region's size that is zero but for three pieces.
type sparse struct {
	head, slots []byte
	count       int32
}

func (s sparse) ReadAt(b []byte, at int64) (int, error) {
	clear(b)
	for _, piece := range []struct {
		at   int64
		data []byte
	}{
		{0, s.head[:min(len(s.head), regionSlots)]},
		{regionSlots, s.slots[:min(len(s.slots), regionCount-regionSlots)]},
		{regionCount, []byte{byte(s.count), byte(s.count >> 8), byte(s.count >> 16), byte(s.count >> 24)}},
	} {
		from, to := max(at, piece.at), min(at+int64(len(b)), piece.at+int64(len(piece.data)))
		if from < to {
			copy(b[from-at:to-at], piece.data[from-piece.at:to-piece.at])
		}
	}
	return len(b), nil
}
