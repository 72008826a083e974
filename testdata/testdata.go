// Package testdata holds machines as text archives: the sysfs of one node
// each, in the format of package internal/fixture, for tests and examples.
//
// The archives are written by the generator in internal/fixture/machines from
// public figures of AMD's GPUs and kernels; the head of each says what is
// taken from where and what is invented. They are not captures.
package testdata

import (
	"embed"
	"fmt"
	"slices"
	"strings"
)

//go:generate go run ../internal/fixture/machines -out machines

// FS holds the archives, machines/<name>.txt.
//
//go:embed machines/*.txt
var FS embed.FS

// Machine returns the archive of a machine by its name, such as
// "mi300x-spx-8".
func Machine(name string) ([]byte, error) {
	archive, err := FS.ReadFile("machines/" + name + ".txt")
	if err != nil {
		return nil, fmt.Errorf("machine %q: want one of %s", name, strings.Join(Machines(), ", "))
	}
	return archive, nil
}

// Machines returns the names of all machines, sorted.
func Machines() []string {
	entries, err := FS.ReadDir("machines")
	if err != nil {
		return nil
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".txt"))
	}
	slices.Sort(names)
	return names
}
