package e2e

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"testing"

	"k8s.io/klog/v2"

	"github.com/Project-HAMi/hami-amd/e2e/cluster"
	"github.com/Project-HAMi/hami-amd/e2e/kubelet"
)

// control is the control plane all tests of this package share. A test that
// stops its API server starts it again.
var control *cluster.Cluster

func TestMain(m *testing.M) {
	os.Exit(kubelet.InNamespace(func() int { return runTests(m) }))
}

func runTests(m *testing.M) int {
	logs, err := os.CreateTemp("", "kubelet-*.log")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.Remove(logs.Name())
	klog.SetSlogLogger(slog.New(slog.NewTextHandler(logs, nil))) // kubelet's parts run in this process

	if control, err = cluster.Start(context.Background(), cluster.Options{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if code != 0 {
		control.WriteLogs(os.Stderr)
		writeTail(os.Stderr, "kubelet", logs)
	}
	if err := control.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// writeTail copies the last part of a log.
func writeTail(w io.Writer, name string, log *os.File) {
	const most = 8 << 10
	fmt.Fprintln(w, name+":")
	if end, err := log.Seek(0, io.SeekEnd); err == nil {
		_, _ = io.Copy(w, io.NewSectionReader(log, max(0, end-most), most))
	}
}
