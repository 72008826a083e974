package main

import (
	"flag"
	"fmt"
	"io"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/Project-HAMi/hami-amd/monitor"
)

const program = "k8s-vgpu-monitor"

// config is the command line.
type config struct {
	address    string
	sysfs      string
	cgroups    string
	hookPath   string
	kubeconfig string
	resync     time.Duration
}

// parse reads the command line. Without a config, the program ends with the
// code.
func parse(args []string, stderr io.Writer) (*config, int) {
	var c config
	flags := flag.NewFlagSet(program, flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&c.address, "metrics_bind_address", ":9394", "TCP `address` that serves /metrics, /healthz and /readyz")
	flags.StringVar(&c.sysfs, "sysfs_root", monitor.DefaultSysfsRoot, "`directory` where sysfs is mounted")
	flags.StringVar(&c.cgroups, "cgroup_root", monitor.DefaultCgroupRoot, "`directory` where the host's whole cgroup2 tree is mounted")
	flags.StringVar(&c.hookPath, "host_hook_path", monitor.DefaultHookPath, "`directory` that holds vgpu/containers, the memory hook's regions")
	flags.StringVar(&c.kubeconfig, "kubeconfig", "", "`file` with the API server and its credentials; empty is the cluster the program runs in")
	flags.DurationVar(&c.resync, "resync", monitor.DefaultResync, "how often pods and node are listed anew beside the watch")
	klogFlags := flag.NewFlagSet("", flag.ContinueOnError)
	klog.InitFlags(klogFlags)
	flags.Var(klogFlags.Lookup("v").Value, "v", "log verbosity")

	flags.Usage = func() {
		fmt.Fprintf(stderr, "Usage of %s:\n", program)
		flags.PrintDefaults()
		fmt.Fprintf(stderr, "  -version\n    \tprint the version and end\n\nEnvironment variable:\n  NODE_NAME\n    \tthe Kubernetes name of this node; required\n")
	}
	// What is wrong stands above the usage, and below it for whoever sees the end
	// of a log.
	refuse := func(format string, args ...any) (*config, int) {
		problem := fmt.Sprintf("%s: %s\n", program, fmt.Sprintf(format, args...))
		io.WriteString(stderr, problem)
		flags.Usage()
		io.WriteString(stderr, "\n"+problem)
		return nil, 2
	}
	switch err := flags.Parse(args); {
	case err == flag.ErrHelp:
		return nil, 0
	case err != nil: // the problem and the usage are printed
		fmt.Fprintf(stderr, "\n%s: %v\n", program, err)
		return nil, 2
	case flags.NArg() > 0:
		return refuse("want flags only, found %q", flags.Arg(0))
	case c.resync < 10*time.Second:
		return refuse("resync: want 10s or more, found %s", c.resync)
	}
	return &c, 0
}

// cluster is how the API server is reached.
func (c *config) cluster() (*rest.Config, error) {
	var config *rest.Config
	var err error
	if c.kubeconfig == "" {
		if config, err = rest.InClusterConfig(); err != nil {
			return nil, fmt.Errorf("want to run in a cluster, or a kubeconfig: %w", err)
		}
	} else if config, err = clientcmd.BuildConfigFromFlags("", c.kubeconfig); err != nil {
		return nil, fmt.Errorf("kubeconfig %q: %w", c.kubeconfig, err)
	}
	config.UserAgent = program
	return config, nil
}
