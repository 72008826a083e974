package exporter_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/Project-HAMi/hami-amd/partition/exporter"
)

const (
	oldService = "metricssvc.MetricsService"
	newService = "gpumetricssvc.MetricsService"
)

var node = []string{"0000:05:00.0", "0000:26:00.0", "0000:46:00.0", "0001:c5:02.1"}

func TestListGivesAVerdictPerGPU(t *testing.T) {
	tests := map[string]struct {
		service string
		gpus    []gpu
		want    map[string]exporter.Health
		notes   []string
	}{
		"the service name the exporter registers": {
			service: oldService,
			gpus: []gpu{
				{ID: "0", UUID: "u0", Health: "healthy", Device: "0000:05:00.0", Workloads: []string{"pod/a", "pod/b"}},
				{ID: "1", UUID: "u1", Health: "unhealthy", Device: "0000:26:00.0"},
			},
			want: map[string]exporter.Health{"0000:05:00.0": exporter.Healthy, "0000:26:00.0": exporter.Unhealthy},
		},
		"the service name of its newer sources": {
			service: newService,
			gpus:    []gpu{{Health: "unhealthy", Device: "0000:26:00.0"}},
			want:    map[string]exporter.Health{"0000:26:00.0": exporter.Unhealthy},
		},
		"an address in upper case": {
			service: oldService,
			gpus:    []gpu{{Health: "unhealthy", Device: "0001:C5:02.1"}},
			want:    map[string]exporter.Health{"0001:c5:02.1": exporter.Unhealthy},
		},
		"one unhealthy partition makes its GPU unhealthy": {
			service: oldService,
			gpus: []gpu{
				{Health: "unhealthy", Device: "0000:05:00.3"},
				{Health: "healthy", Device: "0000:05:00.0"},
				{Health: "healthy", Device: "0000:05:00.7"},
			},
			want: map[string]exporter.Health{"0000:05:00.0": exporter.Unhealthy},
		},
		"one address twice": {
			service: oldService,
			gpus:    []gpu{{Health: "unhealthy", Device: "0000:05:00.0"}, {Health: "healthy", Device: "0000:05:00.0"}},
			want:    map[string]exporter.Health{"0000:05:00.0": exporter.Unhealthy},
		},
		"a virtual function stands for itself": {
			service: oldService,
			gpus:    []gpu{{Health: "unhealthy", Device: "0001:c5:02.0"}, {Health: "healthy", Device: "0001:c5:02.1"}},
			want:    map[string]exporter.Health{"0001:c5:02.1": exporter.Healthy},
		},
		"another word is no verdict": {
			service: oldService,
			gpus:    []gpu{{Health: "UNHEALTHY", Device: "0000:05:00.0"}, {Health: "", Device: "0000:26:00.0"}},
			want:    map[string]exporter.Health{},
			notes: []string{
				`metrics exporter: 0000:05:00.0: health "UNHEALTHY" is neither "healthy" nor "unhealthy", taken as unknown`,
				`metrics exporter: 0000:26:00.0: health "" is neither "healthy" nor "unhealthy", taken as unknown`,
			},
		},
		"one useless state does not hide the others": {
			service: oldService,
			gpus: []gpu{
				{UUID: "u0", Health: "unhealthy", Device: "card0"},
				{UUID: "u1", Health: "unhealthy", Device: ""},
				{UUID: "u2", Health: "unhealthy", Device: "0000:05:00.8"},
				{Health: "healthy", Device: "0000:46:00.0"},
			},
			want: map[string]exporter.Health{"0000:46:00.0": exporter.Healthy},
			notes: []string{
				`metrics exporter: state 0 (UUID "u0"): device "card0" is no PCI address such as "0000:05:00.0"`,
				`metrics exporter: state 1 (UUID "u1"): device "" is no PCI address such as "0000:05:00.0"`,
				`metrics exporter: state 2 (UUID "u2"): device "0000:05:00.8" is no PCI address such as "0000:05:00.0"`,
			},
		},
		"a GPU of another node": {
			service: oldService,
			gpus:    []gpu{{Health: "unhealthy", Device: "0000:ff:00.0"}},
			want:    map[string]exporter.Health{},
		},
		"no GPUs": {service: oldService, want: map[string]exporter.Health{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			socket := serve(t, test.service, func(context.Context) (any, error) { return states(t, test.gpus...), nil })
			got, err := exporter.List(t.Context(), exporter.Options{Socket: socket})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, exporter.Of(got, node)); diff != "" {
				t.Errorf("verdicts (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.notes, got.Notes); diff != "" {
				t.Errorf("notes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReasonsNamesOnlyUnhealthyGPUs(t *testing.T) {
	socket := serve(t, oldService, func(context.Context) (any, error) {
		return states(t, gpu{Health: "unhealthy", Device: "0000:26:00.0"}, gpu{Health: "healthy", Device: "0000:05:00.0"}, gpu{Health: "odd", Device: "0000:46:00.0"}), nil
	})
	v, err := exporter.List(t.Context(), exporter.Options{Socket: socket})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"0000:26:00.0": "the metrics exporter reports the GPU as unhealthy"}
	if diff := cmp.Diff(want, exporter.Reasons(v, node)); diff != "" {
		t.Error(diff)
	}
}

// Whatever the exporter's side does wrong, the answer is ErrNoVerdict in one
// line, and never a GPU called unhealthy.
func TestListFailuresAreNoVerdict(t *testing.T) {
	hostile := func(b ...byte) listFunc {
		return func(context.Context) (any, error) { return rawBytes(b), nil }
	}
	field := func(num protowire.Number, value []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, num, protowire.BytesType), value)
	}
	many := func(context.Context) (any, error) {
		return rawBytes(bytes.Repeat(field(1, nil), 1025)), nil
	}
	tests := map[string]struct {
		service string
		list    listFunc
		want    string // part of the message
	}{
		"another service":                  {"nicmetricssvc.MetricsService", hostile(), "/gpumetricssvc.MetricsService/List"},
		"the service fails":                {oldService, func(context.Context) (any, error) { return nil, status.Error(codes.Internal, "gpuagent\nis\x00 down") }, "Internal: gpuagent is? down"},
		"an error text without end":        {oldService, func(context.Context) (any, error) { return nil, errors.New(strings.Repeat("x", 5000)) }, "xxx..."},
		"a truncated tag":                  {oldService, hostile(0x80), "malformed GPUStateResponse"},
		"a length beyond the message":      {oldService, hostile(0x0a, 0x7f, 0x01), "malformed GPUStateResponse"},
		"states of another wire type":      {oldService, hostile(0x08, 0x01), "field 1 has wire type 0, want 2"},
		"a health of another wire type":    {oldService, hostile(field(1, []byte{0x18, 0x01})...), "GPU state 0: malformed GPUStateResponse: field 3 has wire type 0"},
		"a device that is not UTF-8":       {oldService, hostile(field(1, field(5, []byte{0xff, 0xfe}))...), "field 5 is not UTF-8"},
		"a device longer than any":         {oldService, hostile(field(1, field(5, bytes.Repeat([]byte{'0'}, 300)))...), "field 5 has 300 bytes"},
		"field number zero":                {oldService, hostile(0x02, 0x00), "malformed GPUStateResponse"},
		"groups without end":               {oldService, hostile(bytes.Repeat([]byte{0x13}, 20000)...), "malformed GPUStateResponse"},
		"more states than a node can have": {oldService, many, "more than 1024 GPU states"},
		"a reply beyond the bound":         {oldService, hostile(field(9, make([]byte, 2<<20))...), "ResourceExhausted"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			socket := serve(t, test.service, test.list)
			v, err := exporter.List(t.Context(), exporter.Options{Socket: socket})
			checkNoVerdict(t, v, err, test.want)
			if !strings.Contains(fmt.Sprint(err), socket) {
				t.Errorf("error %q does not name the socket %q", err, socket)
			}
		})
	}
}

func TestListWithoutExporter(t *testing.T) {
	dir := t.TempDir()
	const none = "it is not installed or has not started: no socket "
	for name, tt := range map[string]struct{ socket, want string }{
		"no socket":   {filepath.Join(dir, "absent"), none},
		"no folder":   {filepath.Join(dir, "absent", "absent"), none},
		"a folder":    {dir, "Unavailable"},
		"a long path": {filepath.Join(dir, strings.Repeat("x", 200)), none},
	} {
		t.Run(name, func(t *testing.T) {
			v, err := exporter.List(t.Context(), exporter.Options{Socket: tt.socket})
			checkNoVerdict(t, v, err, tt.want)
		})
	}
}

func TestListEndsWithItsTimeoutAndItsContext(t *testing.T) {
	release := make(chan struct{})
	socket := serve(t, oldService, func(ctx context.Context) (any, error) {
		select {
		case <-release:
		case <-ctx.Done():
		}
		return nil, ctx.Err()
	})
	defer close(release)

	v, err := exporter.List(t.Context(), exporter.Options{Socket: socket, Timeout: time.Millisecond})
	checkNoVerdict(t, v, err, "")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	v, err = exporter.List(ctx, exporter.Options{Socket: socket})
	checkNoVerdict(t, v, err, "")
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v does not wrap %v", err, context.Canceled)
	}
}

// A state the exporter's later versions extend must stay readable.
func TestListSkipsUnknownFields(t *testing.T) {
	inner := protowire.AppendBytes(protowire.AppendTag(nil, 3, protowire.BytesType), []byte("unhealthy"))
	inner = protowire.AppendVarint(protowire.AppendTag(inner, 17, protowire.VarintType), 1<<60)
	inner = protowire.AppendFixed64(protowire.AppendTag(inner, 18, protowire.Fixed64Type), 1)
	inner = protowire.AppendBytes(protowire.AppendTag(inner, 5, protowire.BytesType), []byte("0000:05:00.0"))
	reply := protowire.AppendVarint(protowire.AppendTag(nil, 7, protowire.VarintType), 5)
	reply = protowire.AppendBytes(protowire.AppendTag(reply, 1, protowire.BytesType), inner)
	socket := serve(t, oldService, func(context.Context) (any, error) { return rawBytes(reply), nil })
	v, err := exporter.List(t.Context(), exporter.Options{Socket: socket})
	if err != nil {
		t.Fatal(err)
	}
	if got := exporter.Of(v, node)["0000:05:00.0"]; got != exporter.Unhealthy {
		t.Errorf("verdict %q, want %q", got, exporter.Unhealthy)
	}
}

func TestNotesAreBounded(t *testing.T) {
	gpus := make([]gpu, 500)
	for i := range gpus {
		gpus[i] = gpu{UUID: fmt.Sprint(i), Device: "nonsense"}
	}
	socket := serve(t, oldService, func(context.Context) (any, error) { return states(t, gpus...), nil })
	v, err := exporter.List(t.Context(), exporter.Options{Socket: socket})
	if err != nil {
		t.Fatal(err)
	}
	if last := v.Notes[len(v.Notes)-1]; len(v.Notes) != 17 || last != "metrics exporter: 484 more states of no use" {
		t.Errorf("%d notes, the last %q", len(v.Notes), last)
	}
}

func checkNoVerdict(t *testing.T, v exporter.Verdicts, err error, part string) {
	t.Helper()
	if !errors.Is(err, exporter.ErrNoVerdict) {
		t.Fatalf("error %v, want one that wraps ErrNoVerdict", err)
	}
	text := err.Error()
	if !strings.Contains(text, part) || strings.ContainsAny(text, "\n\x00") || len(text) > 1000 {
		t.Errorf("error %q: want one short line that holds %q", text, part)
	}
	if v.Len() != 0 || len(exporter.Of(v, node)) != 0 {
		t.Errorf("verdicts %v beside an error", exporter.Of(v, node))
	}
}
