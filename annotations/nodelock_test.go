package annotations

import (
	"strings"
	"testing"
	"time"
)

func TestC49NodeLockParsing(t *testing.T) {
	const stamp = "2026-08-21T08:20:39+02:00"
	at := time.Date(2026, 8, 21, 6, 20, 39, 0, time.UTC)
	for name, tt := range map[string]struct {
		value string
		want  NodeLock
	}{
		"with an owner":     {stamp + ",ns1,p", NodeLock{at, "ns1", "p"}},
		"as HAMi writes it": {stamp + ",default,train-0", NodeLock{at, "default", "train-0"}},
		"UTC":               {"2026-08-21T06:20:39Z,ns1,p", NodeLock{at, "ns1", "p"}},
		"a pod with dots":   {stamp + ",ns1,p.0.x", NodeLock{at, "ns1", "p.0.x"}},
		"legacy":            {stamp, NodeLock{Time: at}},
		"legacy in UTC":     {"2026-08-21T06:20:39Z", NodeLock{Time: at}},
		"longest names":     {stamp + "," + strings.Repeat("n", 63) + "," + strings.Repeat("p", 253), NodeLock{at, strings.Repeat("n", 63), strings.Repeat("p", 253)}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseNodeLock(tt.value)
			if err != nil {
				t.Fatal(err)
			}
			if !got.Time.Equal(tt.want.Time) || got.Namespace != tt.want.Namespace || got.Name != tt.want.Name {
				t.Errorf("ParseNodeLock(%q) = %+v, want %+v", tt.value, got, tt.want)
			}
			if got.String() != tt.value {
				t.Errorf("String() = %q, want %q", got.String(), tt.value)
			}
			if got.Legacy() != (tt.want.Name == "") || got.OwnedBy("ns1", "other") || got.OwnedBy("", "") {
				t.Errorf("Legacy() = %v, OwnedBy others = %v, %v", got.Legacy(), got.OwnedBy("ns1", "other"), got.OwnedBy("", ""))
			}
			if !got.Legacy() && !got.OwnedBy(tt.want.Namespace, tt.want.Name) {
				t.Error("not owned by its owner")
			}
		})
	}
	for name, value := range map[string]string{
		"nothing":              "",
		"two commas":           ",,",
		"no pod":               stamp + ",ns1",
		"an empty pod":         stamp + ",ns1,",
		"an empty namespace":   stamp + ",,p",
		"four parts":           stamp + ",ns1,p,x",
		"a comma at the end":   stamp + ",ns1,p,",
		"no time":              ",ns1,p",
		"another time":         "1724221239,ns1,p",
		"a day":                "2026-08-21,ns1,p",
		"no zone":              "2026-08-21T08:20:39,ns1,p",
		"a day that is not":    "2026-02-30T08:20:39Z,ns1,p",
		"spaces":               " " + stamp + ",ns1,p",
		"a space in the name":  stamp + ",ns1,p q",
		"a line in the name":   stamp + ",ns1,p\nq",
		"a path as name":       stamp + ",ns1,../x",
		"a path as namespace":  stamp + ",a/b,p",
		"an escape in it":      stamp + ",ns1,p%2f",
		"not ASCII":            stamp + ",ns1,pé",
		"far too long":         stamp + ",ns1," + strings.Repeat("p", 1<<20),
		"legacy with a comma":  stamp + ",",
		"a word":               "locked",
		"a fraction by comma":  "2026-08-21T08:20:39,5Z",
		"legacy, spaces after": stamp + " ",
	} {
		t.Run("refused: "+name, func(t *testing.T) {
			got, err := ParseNodeLock(value)
			if err == nil || got != (NodeLock{}) {
				t.Fatalf("ParseNodeLock(%q) = %+v, %v, want an error", value, got, err)
			}
			if !strings.Contains(err.Error(), NodeLockKey) || strings.Contains(err.Error(), "\n") || len(err.Error()) > 400 {
				t.Errorf("error %q: want one short line with the key", err)
			}
		})
	}
}

func TestNodeLockHasWholeSeconds(t *testing.T) {
	lock := NodeLock{Time: time.Date(2026, 8, 21, 8, 20, 39, 987654321, time.UTC), Namespace: "ns1", Name: "p"}
	if got, want := lock.String(), "2026-08-21T08:20:39Z,ns1,p"; got != want {
		t.Errorf("String() = %q, want %q", got, want)
	}
}
