// Package pods holds example pods that ask for AMD GPUs under HAMi, one YAML
// file each. They are ready for kubectl apply; quickstart and the tests embed
// them.
package pods

import (
	"embed"
	"fmt"
	"io/fs"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

//go:embed *.yaml
var files embed.FS

// Pod is one of the examples.
type Pod struct {
	File string
	*corev1.Pod
}

// All returns the examples in the order of their file names.
func All() ([]Pod, error) {
	names, err := fs.Glob(files, "*.yaml")
	if err != nil {
		return nil, err
	}
	var all []Pod
	for _, name := range names {
		data, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		p := Pod{File: name, Pod: &corev1.Pod{}}
		if err := yaml.UnmarshalStrict(data, p.Pod); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, p)
	}
	return all, nil
}
