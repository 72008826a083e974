package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

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
	for _, err := range objects.Skipped {
		note(cmd, fmt.Sprintf("skipped %v", err))
	}
	return objects, nil
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
	pod := &objects.Pods[0]
	if pod.Namespace == "" { // as kubectl would create it
		pod.Namespace = corev1.NamespaceDefault
	}
	return pod, nil
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

// newDevices makes the scheduler's side from a file with the "amd" block of
// HAMi's device configuration; no file is HAMi's defaults.
func newDevices(path string) (*amd.Devices, error) {
	if path == "" {
		return amd.New(amd.Config{})
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	config, err := amd.ParseConfig(data)
	if err != nil {
		return nil, fmt.Errorf("--config: %s: %w", path, err)
	}
	return amd.New(config)
}

func pointers[T any](values []T) []*T {
	p := make([]*T, len(values))
	for i := range values {
		p[i] = &values[i]
	}
	return p
}
