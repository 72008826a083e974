package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/Project-HAMi/hami-amd/plugin"
)

var update = flag.Bool("update", false, "write the table of settings in README.md")

const (
	tableBegin = "<!-- begin of the settings, written by go test ./examples/deviceplugin -update -->\n"
	tableEnd   = "<!-- end of the settings -->\n"
)

// The README lists every flag and variable, in the words of the help text.
func TestReadmeHasEverySetting(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(readme), tableBegin)
	_, after, ok2 := strings.Cut(rest, tableEnd)
	if !ok || !ok2 {
		t.Fatalf("want the lines %q and %q", tableBegin, tableEnd)
	}
	var table strings.Builder
	table.WriteString("| flag or variable | default | chart | meaning |\n|---|---|---|---|\n")
	code := func(s string) string {
		if s == "" {
			return ""
		}
		return "`" + s + "`"
	}
	for _, s := range plugin.Settings() {
		name := s.Variable
		if s.Flag != "" {
			name = "-" + s.Flag
		}
		fmt.Fprintf(&table, "| %s | %s | %s | %s |\n", code(name), code(s.Default), code(s.Value), s.Usage)
	}
	want := before + tableBegin + table.String() + tableEnd + after
	if *update {
		if err := os.WriteFile("README.md", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want != string(readme) {
		t.Error("the table of settings is not that of the plugin: go test ./examples/deviceplugin -update")
	}
}
