package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/Project-HAMi/hami-amd/inspect/draw"
)

func TestDraw(t *testing.T) {
	files := []string{"draw", "--nodes", "testdata/nodes.yaml", "--pods", "testdata/pods.yaml"}
	for name, args := range map[string][]string{
		"draw":        {},
		"draw-narrow": {"--width", "60", "--ascii", "--title", "lab"},
		"draw-json":   {"-o", "json"},
	} {
		t.Run(name, func(t *testing.T) { golden(t, name, ok(t, "", append(files, args...)...)) })
	}
	for format, words := range map[string][]string{
		"svg":  {"<svg ", "team-a/chat-7d9f", "</svg>"},
		"html": {"<!DOCTYPE html>", "Content-Security-Policy", "team-a/chat-7d9f", "</html>"},
	} {
		t.Run(format, func(t *testing.T) {
			r := ok(t, "", append(files, "-o", format)...)
			if again := ok(t, "", append(files, "-o", format)...); again.stdout != r.stdout {
				t.Error("the same files give another picture")
			}
			for _, word := range words {
				if !strings.Contains(r.stdout, word) {
					t.Errorf("no %q in %.200q", word, r.stdout)
				}
			}
		})
	}
}

func TestDrawOneNode(t *testing.T) {
	nodes, err := os.ReadFile("testdata/nodes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	r := ok(t, string(nodes), "draw", "--cluster", "-", "--node", "mi300x-1", "-o", "json")
	var answer drawn
	if err := json.Unmarshal([]byte(r.stdout), &answer); err != nil {
		t.Fatal(err)
	}
	if len(answer.Nodes) != 1 || answer.Nodes[0].Name != "mi300x-1" || len(answer.Nodes[0].GPUs) != 8 {
		t.Fatalf("drawn: %+v", answer.Nodes)
	}
	for _, g := range answer.Nodes[0].GPUs {
		if g.CUs != 304 || g.Free != "0-303" || len(g.Tenants) != 0 {
			t.Errorf("a GPU without pods: %+v", g)
		}
	}
	if r.stderr == "" {
		t.Error("no note about the missing pods")
	}
}

func TestDrawRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		args  []string
		words []string
	}{
		"no cluster":       {[]string{"draw"}, []string{"--cluster"}},
		"no such file":     {[]string{"draw", "--nodes", "testdata/absent.yaml"}, []string{"--nodes", "absent.yaml"}},
		"no such node":     {[]string{"draw", "--nodes", "testdata/nodes.yaml", "--pods", "testdata/pods.yaml", "--node", "n9"}, []string{"--node", `"n9"`}},
		"a negative width": {[]string{"draw", "--nodes", "testdata/nodes.yaml", "--width", "-1"}, []string{"--width", "-1"}},
		"no such format":   {[]string{"draw", "-o", "png"}, []string{"text", "svg", "html", "json"}},
		"no such time":     {[]string{"draw", "--nodes", "testdata/nodes.yaml", "--at", "today"}, []string{"--at", "today"}},
	} {
		t.Run(name, func(t *testing.T) { refused(t, "", tc.args, tc.words...) })
	}
}

func TestDrawText(t *testing.T) {
	for name, tc := range map[string]struct {
		env  map[string]string
		f    drawFlags
		want draw.TextOptions
	}{
		"a file":            {nil, drawFlags{}, draw.TextOptions{Width: plainWidth}},
		"COLUMNS":           {map[string]string{"COLUMNS": "72"}, drawFlags{}, draw.TextOptions{Width: 72}},
		"COLUMNS of no use": {map[string]string{"COLUMNS": "many"}, drawFlags{}, draw.TextOptions{Width: plainWidth}},
		"--width":           {map[string]string{"COLUMNS": "72"}, drawFlags{width: 50}, draw.TextOptions{Width: 50}},
		"a UTF-8 locale":    {map[string]string{"LANG": "de_DE.UTF-8"}, drawFlags{}, draw.TextOptions{Width: plainWidth}},
		"the C locale":      {map[string]string{"LANG": "de_DE.UTF-8", "LC_ALL": "C"}, drawFlags{}, draw.TextOptions{Width: plainWidth, ASCII: true}},
		"--ascii":           {nil, drawFlags{ascii: true}, draw.TextOptions{Width: plainWidth, ASCII: true}},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := &cobra.Command{}
			cmd.SetOut(&strings.Builder{})
			got := tc.f.text(cmd, func(name string) (string, bool) { v, ok := tc.env[name]; return v, ok })
			if got != tc.want {
				t.Errorf("options %+v, want %+v", got, tc.want)
			}
		})
	}
}
