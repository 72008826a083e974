package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/Project-HAMi/hami-amd/amd"
	"github.com/Project-HAMi/hami-amd/internal/kubeyaml"
)

// readObjects reads one file of nodes or pods, "-" for standard input, and
// names what it skips on standard error.
func readObjects(cmd *cobra.Command, flag, path string) (*kubeyaml.Objects, error) {
	objects, err := kubeyaml.ReadFile(path, cmd.InOrStdin())
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	noteSkipped(cmd, objects)
	inNamespaces(objects.Pods)
	return objects, nil
}

func noteSkipped(cmd *cobra.Command, objects *kubeyaml.Objects) {
	for _, err := range objects.Skipped {
		note(cmd, fmt.Sprintf("skipped %v", err))
	}
}

// readPod reads a file that holds one pod.
func readPod(cmd *cobra.Command, path string) (*corev1.Pod, error) {
	objects, err := kubeyaml.ReadFile(path, cmd.InOrStdin())
	switch {
	case err != nil:
		return nil, fmt.Errorf("--pod: %w", err)
	case len(objects.Pods) == 0 && len(objects.Skipped) > 0:
		return nil, fmt.Errorf("--pod: %s: %w", path, objects.Skipped[0])
	case len(objects.Pods) != 1:
		return nil, fmt.Errorf("--pod: %s: want one pod, have %d", path, len(objects.Pods))
	}
	noteSkipped(cmd, objects)
	inNamespaces(objects.Pods)
	return &objects.Pods[0], nil
}

// inNamespaces puts pods that name no namespace where kubectl would create
// them, so that a pod is the same one in every file.
func inNamespaces(pods []corev1.Pod) {
	for i := range pods {
		if pods[i].Namespace == "" {
			pods[i].Namespace = corev1.NamespaceDefault
		}
	}
}

// readPods reads the pods of a cluster; no file is no pods.
func readPods(cmd *cobra.Command, path string) ([]corev1.Pod, error) {
	if path == "" {
		return nil, nil
	}
	objects, err := readObjects(cmd, "pods", path)
	if err != nil {
		return nil, err
	}
	return objects.Pods, nil
}

// configHelp is what --config takes.
const configHelp = `HAMi's device configuration, or its "amd" block alone`

// newDevices makes the scheduler's side from a file with HAMi's device
// configuration or its "amd" block; no file is HAMi's defaults.
func newDevices(path string) (*amd.Devices, error) {
	if path == "" {
		return amd.New(amd.Config{})
	}
	data, err := readConfig(path)
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	block, err := amdBlock(data)
	if err != nil {
		return nil, fmt.Errorf("--config: %s: %w", path, err)
	}
	config, err := amd.ParseConfig(block)
	if err != nil {
		return nil, fmt.Errorf("--config: %s: %w", path, err)
	}
	return amd.New(config)
}

// maxConfig is the largest configuration that is read. A whole one of HAMi has
// a few kilobytes.
const maxConfig = 1 << 20

// amdBlock is what stands under the key "amd", where there is one, and all of
// the file where there is none. The other vendors' keys are theirs.
func amdBlock(data []byte) ([]byte, error) {
	var blocks map[string]json.RawMessage
	if err := yaml.UnmarshalStrict(data, &blocks); err != nil {
		return nil, err
	}
	block, ok := blocks["amd"]
	if !ok {
		return data, nil
	}
	fields := reflect.TypeFor[amd.Config]()
	for i := range fields.NumField() {
		key, _, _ := strings.Cut(fields.Field(i).Tag.Get("json"), ",")
		if _, ok := blocks[key]; ok {
			return nil, fmt.Errorf("key %q: want it in the block \"amd\" with the others", key)
		}
	}
	return block, nil
}

func readConfig(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	switch {
	case err != nil:
		return nil, err
	case len(data) > maxConfig:
		return nil, fmt.Errorf("%s: want at most %d bytes", path, maxConfig)
	}
	if err := kubeyaml.CheckAliases(data); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return data, nil
}

func pointers[T any](values []T) []*T {
	p := make([]*T, len(values))
	for i := range values {
		p[i] = &values[i]
	}
	return p
}
