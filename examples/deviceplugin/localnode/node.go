package main

import (
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/Project-HAMi/hami-amd/hook"
	"github.com/Project-HAMi/hami-amd/hook/elftest"
	"github.com/Project-HAMi/hami-amd/internal/fixture"
	"github.com/Project-HAMi/hami-amd/partition"
	"github.com/Project-HAMi/hami-amd/testdata"
)

// nodeName is the Kubernetes name of the node.
const nodeName = "node-1"

// node is a machine laid out below a directory.
type node struct{ path string }

func (n node) sysfs() string     { return filepath.Join(n.path, "sys") }
func (n node) dev() string       { return filepath.Join(n.path, "dev") }
func (n node) cgroup() string    { return filepath.Join(n.path, "cgroup") }
func (n node) kubelet() string   { return filepath.Join(n.path, "kubelet") }
func (n node) hook() string      { return filepath.Join(n.path, "hook") }
func (n node) library() string   { return filepath.Join(n.hook(), "vgpu", hook.Library) }
func (n node) deviceDir() string { return filepath.Join(n.kubelet(), "device-plugins") }

// layOut makes the directory and everything in it.
func layOut(path, machine string) (node, error) {
	archive, err := testdata.Machine(machine)
	if err != nil {
		return node{}, err
	}
	if path, err = filepath.Abs(path); err != nil {
		return node{}, err
	}
	n := node{path}
	if err := os.Mkdir(path, 0o755); err != nil {
		return node{}, err
	}
	for _, dir := range []string{filepath.Join(n.dev(), "dri"), n.cgroup(), n.deviceDir(), n.hook()} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return node{}, err
		}
	}
	if err := fixture.Unpack(archive, path); err != nil {
		return node{}, err
	}
	inventory, err := partition.Discover(n.sysfs())
	if err != nil {
		return node{}, err
	}
	for _, name := range deviceFiles(inventory) {
		if err := os.WriteFile(filepath.Join(n.dev(), name), nil, 0o644); err != nil {
			return node{}, err
		}
	}
	if err := os.Mkdir(filepath.Dir(n.library()), 0o755); err != nil {
		return node{}, err
	}
	return n, os.WriteFile(n.library(), standInHook(), 0o644)
}

// standInHook is a library that programs here could load, and does nothing.
func standInHook() []byte {
	o := elftest.Options{Needed: []string{"libc.so.6"}, Needs: []elftest.Need{{Library: "libc.so.6", Versions: []string{"GLIBC_2.34"}}}}
	if runtime.GOARCH == "arm64" {
		o.Machine = elf.EM_AARCH64
	}
	return elftest.Build(o)
}

// deviceFiles are what a node with these GPUs has in /dev. Empty files stand for
// them: a health check only opens them.
func deviceFiles(inventory *partition.Inventory) []string {
	names := []string{"kfd"}
	card := func(minor *int) {
		if minor != nil {
			names = append(names, fmt.Sprintf("dri/card%d", *minor))
		}
	}
	for _, gpu := range inventory.GPUs {
		card(gpu.Card)
		for _, part := range gpu.Nodes {
			card(part.Card)
			names = append(names, fmt.Sprintf("dri/renderD%d", part.RenderMinor))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// command starts the plugin on the node.
func (n node) command(kubeconfig string) string {
	api := "-kubeconfig=" + kubeconfig
	if kubeconfig == "" {
		api = "-standalone"
	}
	return fmt.Sprintf(`NODE_NAME=%s HOST_HOOK_PATH=%s go run ./examples/deviceplugin %s -pulse=5 \
  -sysfs_root=%s -dev_root=%s -cgroup_root=%s -kubelet_dir=%s`, nodeName, n.hook(), api, n.sysfs(), n.dev(), n.cgroup(), n.kubelet())
}
