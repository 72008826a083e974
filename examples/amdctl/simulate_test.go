package main

import (
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

// quick is a simulation short enough for a test.
func quick(more ...string) []string {
	return append([]string{"simulate", "--requests", "400", "--samples", "10"}, more...)
}

func TestSimulate(t *testing.T) {
	table := ok(t, "", quick()...).stdout
	for _, want := range append(policyNames(), "mi300x", "400 requests") {
		if !strings.Contains(table, want) {
			t.Errorf("the table does not show %q:\n%s", want, table)
		}
	}

	var report struct {
		Results []struct {
			Policy   string `json:"policy"`
			Requests int    `json:"requests"`
			Starved  int    `json:"starved"`
			Samples  []any  `json:"samples"`
		} `json:"results"`
	}
	if err := json.Unmarshal([]byte(ok(t, "", quick("-o", "json")...).stdout), &report); err != nil {
		t.Fatal(err)
	}
	if len(report.Results) != 2 || report.Results[0].Policy != policyNames()[0] {
		t.Fatalf("results %+v, want those of %v", report.Results, policyNames())
	}
	for i, r := range report.Results {
		if r.Requests != 400 || len(r.Samples) == 0 {
			t.Errorf("%s: %d requests, %d samples, want 400 and some", r.Policy, r.Requests, len(r.Samples))
		}
		if i == 0 && r.Starved > 0 {
			t.Errorf("%s starves an XCC %d times", r.Policy, r.Starved)
		}
	}

	rows, err := csv.NewReader(strings.NewReader(ok(t, "", quick("-o", "csv")...).stdout)).ReadAll()
	if err != nil || len(rows) < 10 {
		t.Errorf("CSV of %d rows: %v", len(rows), err)
	}
	decoder := xml.NewDecoder(strings.NewReader(ok(t, "", quick("-o", "svg")...).stdout))
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("SVG: %v", err)
		}
	}
}

func TestSimulateTheSameSeedGivesTheSame(t *testing.T) {
	one, two := ok(t, "", quick("-o", "json")...).stdout, ok(t, "", quick("-o", "json")...).stdout
	if one != two {
		t.Error("the same flags gave two answers")
	}
	if other := ok(t, "", quick("--seed", "2", "-o", "json")...).stdout; other == one {
		t.Error("another seed gave the same answer")
	}
}

func TestSimulateGPUs(t *testing.T) {
	for _, args := range [][]string{
		{"--gpu", "RX7900XTX"}, {"--cus", "80", "--xccs", "4"}, {"--cus", "32", "--cus-per-wgp", "2"},
		{"--rounding", "balanced"}, {"--policies", "pack"}, {"--load", "1.5"}, {"--lifetime", "3"},
	} {
		if out := ok(t, "", quick(args...)...).stdout; out == "" {
			t.Errorf("simulate %v prints nothing", args)
		}
	}
}

// The help explains each row of the table and names each policy.
func TestSimulateHelpExplainsTheTable(t *testing.T) {
	help := ok(t, "", "simulate", "-h").stdout
	_, rows, _ := strings.Cut(ok(t, "", "simulate", "--requests", "50", "--policies", strings.Join(allPolicyNames(), ",")).stdout, "\n")
	heading, rows, _ := strings.Cut(rows, "\n")
	for _, policy := range strings.Fields(heading) {
		if !strings.Contains(help, policy+",") && !strings.Contains(help, policy+"\n") {
			t.Errorf("the help does not name policy %s", policy)
		}
	}
	named := 0
	for line := range strings.Lines(rows) {
		name := strings.TrimSpace(line[:15])
		if named++; !strings.Contains(help, "\n  "+name) && !strings.Contains(help, ", "+name+" ") {
			t.Errorf("the help does not explain %q", name)
		}
	}
	if named < 11 || len(strings.Fields(heading)) != 4 {
		t.Errorf("%d rows for policies %s", named, heading)
	}
}

func TestSimulateFewPods(t *testing.T) {
	for _, format := range []string{"table", "csv", "svg", "json"} {
		ok(t, "", "simulate", "--requests", "1", "-o", format)
	}
}

func TestSimulateRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		args  []string
		words []string
	}{
		"unknown product":       {[]string{"--gpu", "h100"}, []string{`"h100"`, "mi300x"}},
		"product and CUs":       {[]string{"--gpu", "mi300x", "--cus", "80"}, []string{"--gpu", "--cus"}},
		"XCCs without CUs":      {[]string{"--xccs", "4"}, []string{"--xccs", "--cus"}},
		"GPU of no CUs":         {[]string{"--cus", "0"}, []string{"0"}},
		"impossible shape":      {[]string{"--cus", "81", "--xccs", "4"}, []string{"81"}},
		"unknown policy":        {[]string{"--policies", "random"}, []string{"--policies", "random"}},
		"unknown rounding":      {[]string{"--rounding", "up"}, []string{"--rounding", "up"}},
		"percent out of range":  {[]string{"--max-percent", "101"}, []string{"101"}},
		"percent upside down":   {[]string{"--min-percent", "50", "--max-percent", "5"}, []string{"50"}},
		"no requests":           {[]string{"--requests", "-1"}, []string{"-1"}},
		"load of nothing":       {[]string{"--load", "-1"}, []string{"-1"}},
		"none of something":     {[]string{"--max-percent", "0"}, []string{"--max-percent", "above 0"}},
		"more points than time": {[]string{"--requests", "5", "--samples", "6"}, []string{"6 samples"}},
	} {
		t.Run(name, func(t *testing.T) { refused(t, "", append([]string{"simulate"}, tc.args...), tc.words...) })
	}
}
