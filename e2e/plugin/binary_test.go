package plugin

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var errNotYet = errors.New("not yet")

// run runs the plugin to its end.
func run(t *testing.T, environ []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, lab.Binary, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = environ, &out, &errs
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

func TestHelp(t *testing.T) {
	code, stdout, stderr := run(t, []string{}, "-h")
	if code != 0 || stderr != "" || !strings.Contains(stdout, "-split_count (default 0)") {
		t.Errorf("-h: exit code %d, standard error %q, standard output:\n%s", code, stderr, stdout)
	}
}

// What the command line, the environment and the files cannot be. 2 is a
// command line that is not understood, and comes with the usage; 1 is one line.
func TestRefusedAtStart(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	named := []string{"NODE_NAME=node-1"}
	for name, tt := range map[string]struct {
		environ []string
		args    []string
		code    int
		want    string
	}{
		"an unknown flag":           {environ: named, args: []string{"-split_counts=1"}, code: 2, want: "flag provided but not defined: -split_counts"},
		"an argument":               {environ: named, args: []string{"serve"}, code: 2, want: `unexpected argument "serve"`},
		"a flag without its value":  {environ: named, args: []string{"-split_count"}, code: 2, want: "flag needs an argument: -split_count"},
		"no node name":              {environ: []string{}, code: 1, want: "NODE_NAME is not set"},
		"a negative split count":    {environ: named, args: []string{"-split_count=-1"}, code: 1, want: "split count -1"},
		"a word for a number":       {environ: named, args: []string{"-pulse=often"}, code: 1, want: `-pulse: want whole seconds, 0 to 86400, found "often"`},
		"an unknown policy":         {environ: named, args: []string{"-allocator_policy=fast"}, code: 1, want: `allocator policy "fast"`},
		"an unknown mode":           {environ: append(named, "OPERATING_MODE=mig"), code: 1, want: `"mig"`},
		"an unknown partition":      {environ: append(named, "OPERATING_MODE=partition", "COMPUTE_PARTITION=hpx"), code: 1, want: `"hpx"`},
		"a log level of the hook":   {environ: append(named, "LIBHIP_LOG_LEVEL=5"), code: 1, want: "LIBHIP_LOG_LEVEL 5: want 0 to 4"},
		"a bad GPU to exclude":      {environ: named, args: []string{"-exclude_gpus=gpu0"}, code: 1, want: `"gpu0"`},
		"a settings file not there": {environ: named, args: []string{"-standalone", "-node_config_file=" + filepath.Join(dir, "none")}, code: 1, want: "no such file or directory"},
		"a setting nobody knows": {
			environ: named, args: []string{"-standalone", "-node_config_file=" + file("unknown.yaml", "nodeconfig: [{name: node-1, migstrategy: none}]")},
			code: 1, want: "migstrategy",
		},
		"a setting that cannot be": {
			environ: named, args: []string{"-standalone", "-node_config_file=" + file("negative.yaml", "nodeconfig: [{name: node-1, splitcount: -2}]")},
			code: 1, want: "-2",
		},
		"no API server":          {environ: named, code: 1, want: "KUBERNETES_SERVICE_HOST"},
		"a kubeconfig not there": {environ: named, args: []string{"-kubeconfig=" + filepath.Join(dir, "none")}, code: 1, want: "no such file or directory"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := run(t, tt.environ, tt.args...)
			if code != tt.code || stdout != "" {
				t.Errorf("exit code %d, standard output %q, want %d and none", code, stdout, tt.code)
			}
			first, rest, _ := strings.Cut(stderr, "\n")
			if !strings.Contains(first, tt.want) {
				t.Errorf("standard error starts with %q, want %q in it", first, tt.want)
			}
			if usage := strings.Contains(rest, "Usage: k8s-device-plugin [flags]"); usage != (tt.code == 2) || !usage && rest != "" {
				t.Errorf("the usage is printed: %v; after the first line:\n%s", usage, rest)
			}
		})
	}
}

func TestNoSysfs(t *testing.T) {
	root := filepath.Join(t.TempDir(), "sys")
	code, _, stderr := run(t, nil, "-standalone", "-sysfs_root="+root)
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	if last := lines[len(lines)-1]; code != 1 || !strings.HasPrefix(last, "k8s-device-plugin: ") || !strings.Contains(last, root) {
		t.Errorf("exit code %d, %q, want 1 and a line that names %s", code, last, root)
	}
}
