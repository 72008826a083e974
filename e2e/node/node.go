package node

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/Project-HAMi/hami-amd/e2e/cluster"
	"github.com/Project-HAMi/hami-amd/e2e/kubelet"
	"github.com/Project-HAMi/hami-amd/e2e/process"
	"github.com/Project-HAMi/hami-amd/e2e/proxy"
	"github.com/Project-HAMi/hami-amd/e2e/scheduler"
	"github.com/Project-HAMi/hami-amd/hook"
	"github.com/Project-HAMi/hami-amd/hook/elftest"
	"github.com/Project-HAMi/hami-amd/internal/fixture"
	"github.com/Project-HAMi/hami-amd/partition"
	"github.com/Project-HAMi/hami-amd/testdata"
)

// patience is how long a test waits for what must come.
const patience = time.Minute

// Options describe a node. The zero value is eight MI300X under the chart's
// default values.
type Options struct {
	// Machine is a machine of testdata. Empty: mi300x-spx-8.
	Machine string
	// Chart is a rendering of the chart: a file of
	// examples/deviceplugin/testdata/rendered without its ending. Empty: default.
	Chart string
	// Flags come after the chart's, so they outrank them.
	Flags []string
	// Env adds to the chart's variables, or replaces them.
	Env map[string]string
	// CDI makes the plugin hand out CDI names, with its spec in CDIDir.
	CDI bool
	// Settings is the file of -node_config_file. In it NODE stands for the
	// node's name. Empty: no file.
	Settings string
	// Annotations are on the node before the plugin starts.
	Annotations map[string]string
	// Prepare edits the node's folders before the plugin starts.
	Prepare func(n *Node)
	// Topology is kubelet's policy, with the NUMA nodes of its machine.
	// The node name is set by Start.
	Topology kubelet.Options
	// Scheduler are the settings of HAMi's scheduler.
	Scheduler scheduler.Options
	// Want is how many healthy devices kubelet must see, by resource, before
	// the plugin counts as started. Nil: some amd.com/gpu.
	Want map[corev1.ResourceName]int64
	// Direct leaves the proxy out of the plugin's way to the API server.
	Direct bool
	// Stopped leaves the plugin to the test, which calls StartPlugin.
	Stopped bool
}

// Node is a running node. Its methods fail the test where something around the
// plugin does not work; what the plugin does is returned.
type Node struct {
	testing.TB
	Lab       *Lab
	Name      string
	Namespace string // for the test's pods
	Dir       string // holds all folders of the node
	Kubelet   *kubelet.Kubelet
	Scheduler *scheduler.Scheduler
	// Proxy stands between the plugin, and nobody else, and the API server.
	Proxy *proxy.Proxy
	// Plugin is the last process of the plugin.
	Plugin *process.Process

	o     Options
	chart *chart

	mu     sync.Mutex
	served map[types.UID]*Served
}

// The places of the host.
func (n *Node) Sysfs() string    { return filepath.Join(n.Dir, "sys") }
func (n *Node) Dev() string      { return filepath.Join(n.Dir, "dev") }
func (n *Node) Cgroup() string   { return filepath.Join(n.Dir, "cgroup") }
func (n *Node) HookPath() string { return filepath.Join(n.Dir, "hook") }
func (n *Node) CDIDir() string   { return filepath.Join(n.Dir, "cdi") }
func (n *Node) Exporter() string { return filepath.Join(n.Dir, "exporter.sock") }
func (n *Node) log() string      { return filepath.Join(n.Dir, "plugin.log") }

// Start makes a node for the time of a test and starts the plugin on it. At the
// end of the test the plugin must stop cleanly when it is asked to.
func (l *Lab) Start(tb testing.TB, o Options) *Node {
	tb.Helper()
	if o.Machine == "" {
		o.Machine = "mi300x-spx-8"
	}
	if o.Chart == "" {
		o.Chart = "default"
	}
	n := &Node{TB: tb, Lab: l, Name: "node-" + strings.ToLower(rand.Text()[:8]), o: o, served: make(map[types.UID]*Served)}
	n.layOut()
	n.connect()
	n.startKubelet()
	if o.Prepare != nil {
		o.Prepare(n)
	}
	if !o.Stopped {
		n.StartPlugin()
	}
	return n
}

// layOut makes the node's folders.
func (n *Node) layOut() {
	n.Helper()
	var err error
	if n.Dir, err = fixture.MkdirTemp(); err != nil {
		n.Fatal(err)
	}
	n.Cleanup(func() { os.RemoveAll(n.Dir) })
	archive, err := testdata.Machine(n.o.Machine)
	if err != nil {
		n.Fatal(err)
	}
	if err := fixture.Unpack(archive, n.Dir); err != nil {
		n.Fatal(err)
	}
	n.WriteHook()
	for _, dir := range []string{n.Cgroup(), n.CDIDir()} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			n.Fatal(err)
		}
	}
	n.MakeDeviceFiles()
	if n.o.Settings != "" {
		n.Write(filepath.Join(n.Dir, "config.yaml"), strings.ReplaceAll(n.o.Settings, "NODE", n.Name))
	}
}

// MakeDeviceFiles makes the device nodes of the machine as it is now.
func (n *Node) MakeDeviceFiles() {
	n.Helper()
	for _, name := range deviceFiles(n.Inventory()) {
		n.Write(filepath.Join(n.Dev(), name), "")
	}
}

// WriteHook installs a stand-in for the memory hook: a library with nothing in
// it.
func (n *Node) WriteHook() {
	n.Helper()
	n.Write(filepath.Join(n.HookPath(), "vgpu", hook.Library), string(elftest.Hook("GLIBC_2.34")))
}

// Write writes a file and makes the folders above it.
func (n *Node) Write(path, content string) {
	n.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(content), 0o644)
	}
	if err != nil {
		n.Fatal(err)
	}
}

// Inventory is what the machine has now.
func (n *Node) Inventory() *partition.Inventory {
	n.Helper()
	inventory, err := partition.Discover(n.Sysfs())
	if err != nil {
		n.Fatal(err)
	}
	return inventory
}

// deviceFiles are the device nodes of these GPUs. Empty files stand for them: a
// health check only opens them.
func deviceFiles(inventory *partition.Inventory) []string {
	names := []string{"kfd"}
	for _, gpu := range inventory.GPUs {
		if gpu.Card != nil {
			names = append(names, fmt.Sprintf("dri/card%d", *gpu.Card))
		}
		for _, part := range gpu.Nodes {
			names = append(names, fmt.Sprintf("dri/renderD%d", part.RenderMinor))
			if part.Card != nil {
				names = append(names, fmt.Sprintf("dri/card%d", *part.Card))
			}
		}
	}
	return names
}

// connect makes the ways to the API server: the plugin's, with its rights and
// through the proxy, and the scheduler's.
func (n *Node) connect() {
	n.Helper()
	var err error
	if n.chart, err = n.Lab.chart(n.o.Chart); err != nil {
		n.Fatal(err)
	}
	access, err := n.Lab.access(n.chart)
	if err != nil {
		n.Fatal(err)
	}
	if n.Proxy, err = proxy.Start(n.Lab.Cluster.Admin()); err != nil {
		n.Fatal(err)
	}
	n.Cleanup(func() {
		if err := n.Proxy.Stop(); err != nil {
			n.Error(err)
		}
	})
	if !n.o.Direct {
		access = n.Proxy.Access(access)
	}
	if err := cluster.WriteKubeconfig(n.kubeconfig(), access); err != nil {
		n.Fatal(err)
	}
	if n.Scheduler, err = scheduler.New(n.Lab.Client, n.o.Scheduler); err != nil {
		n.Fatal(err)
	}
	ctx, cancel := n.Timeout()
	defer cancel()
	// Nobody empties a namespace that is deleted, so it stays.
	ns, err := n.Lab.Client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	if err != nil {
		n.Fatal(err)
	}
	n.Namespace = ns.Name
}

func (n *Node) kubeconfig() string { return filepath.Join(n.Dir, "kubeconfig") }

func (n *Node) startKubelet() {
	n.Helper()
	ctx, cancel := n.Timeout()
	defer cancel()
	o := n.o.Topology
	o.NodeName = n.Name
	var err error
	if n.Kubelet, err = kubelet.Start(ctx, n.Lab.Client, o); err != nil {
		n.Fatal(err)
	}
	n.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := errors.Join(n.Kubelet.Stop(), n.Kubelet.RemoveNode(ctx), os.RemoveAll(kubelet.Folder)); err != nil {
			n.Error(err)
		}
	})
	if len(n.o.Annotations) > 0 {
		notes := make(map[string]*string)
		for key, value := range n.o.Annotations {
			notes[key] = &value
		}
		n.Annotate(notes)
	}
}

// Timeout is for the test's own requests. It ends before the test's deadline is
// near.
func (n *Node) Timeout() (context.Context, context.CancelFunc) {
	return context.WithTimeout(n.Context(), patience)
}

// Object is the node object as it is now.
func (n *Node) Object() *corev1.Node {
	n.Helper()
	ctx, cancel := n.Timeout()
	defer cancel()
	node, err := n.Lab.Client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
	if err != nil {
		n.Fatal(err)
	}
	return node
}

// Annotate sets annotations of the node object; nil deletes.
func (n *Node) Annotate(notes map[string]*string) {
	n.Helper()
	ctx, cancel := n.Timeout()
	defer cancel()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": notes}})
	if err != nil {
		n.Fatal(err)
	}
	if _, err := n.Lab.Client.CoreV1().Nodes().Patch(ctx, n.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		n.Fatal(err)
	}
}

// Eventually waits until is returns nil, and fails the test with its last error
// if that takes too long.
func (n *Node) Eventually(what string, is func() error) {
	n.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := is()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			n.Fatalf("%s: %v", what, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Sockets are the sockets in kubelet's folder but for kubelet's own.
func (n *Node) Sockets() []string {
	n.Helper()
	entries, err := os.ReadDir(kubelet.Folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		n.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if e.Type() == fs.ModeSocket && e.Name() != "kubelet.sock" {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names
}
