//go:build cgo

package main

import (
	"errors"
	"flag"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/Project-HAMi/HAMi/pkg/device"
	"github.com/Project-HAMi/HAMi/pkg/scheduler/config"
	"github.com/Project-HAMi/HAMi/pkg/util"
	"github.com/Project-HAMi/HAMi/pkg/util/client"
)

// options are the flags that HAMi keeps in no variable of its own.
type options struct {
	deviceConfig      string
	certFile, keyFile string
}

// parseFlags reads HAMi's flags into HAMi's variables.
func parseFlags(args []string) (options, error) {
	var o options
	fs := config.GlobalFlagSet() // --device-config-file, the vendors' and klog's
	fs.Init("scheduler", flag.ContinueOnError)
	fs.StringVar(&config.HTTPBind, "http_bind", "127.0.0.1:8080", "address to serve the extender and the webhook on")
	fs.StringVar(&o.certFile, "cert_file", "", "TLS certificate; without one HTTP is served")
	fs.StringVar(&o.keyFile, "key_file", "", "key of the TLS certificate")
	fs.StringVar(&config.SchedulerName, "scheduler-name", "", "name that pods with GPUs get as spec.schedulerName")
	fs.StringVar(&config.NodeSchedulerPolicy, "node-scheduler-policy", util.NodeSchedulerPolicyBinpack.String(), "binpack or spread over nodes")
	fs.StringVar(&device.GPUSchedulerPolicy, "gpu-scheduler-policy", util.GPUSchedulerPolicySpread.String(), "policy over the GPUs of a node")
	fs.Func("node-label-selector", "labels of the nodes to look at, key=value separated by commas", func(s string) (err error) {
		config.NodeLabelSelector, err = labels.ConvertSelectorToLabelsMap(s)
		return err
	})
	fs.Func("kube-qps", fmt.Sprintf("requests per second to the API server (default %v)", client.DefaultQPS), func(s string) error {
		_, err := fmt.Sscan(s, &config.QPS)
		return err
	})
	config.QPS = client.DefaultQPS
	fs.IntVar(&config.Burst, "kube-burst", client.DefaultBurst, "requests at once to the API server")
	fs.IntVar(&config.Timeout, "kube-timeout", client.DefaultTimeout, "seconds to wait for the API server")
	fs.DurationVar(&config.NodeLockTimeout, "node-lock-timeout", 5*time.Minute, "how long a lock that nobody needs is held")
	fs.DurationVar(&config.NodeLockRetryTimeout, "node-lock-retry-timeout", 28*time.Second, "how long pods of a group wait for a lock")
	fs.BoolVar(&config.ForceOverwriteDefaultScheduler, "force-overwrite-default-scheduler", true, "take pods of default-scheduler too")
	fs.BoolVar(&config.LeaderElect, "leader-elect", false, "elect a leader among several schedulers")
	fs.StringVar(&config.LeaderElectResourceName, "leader-elect-resource-name", "", "name of the lease")
	fs.StringVar(&config.LeaderElectResourceNamespace, "leader-elect-resource-namespace", "", "namespace of the lease")
	fs.String("metrics-bind-address", "", "no effect: HAMi's metrics are part of its own program")
	fs.Bool("legacy-metrics", false, "no effect, as above")
	fs.Bool("profiling", false, "no effect")
	if err := fs.Parse(args); err != nil {
		return options{}, err
	}
	o.deviceConfig = fs.Lookup("device-config-file").Value.String()
	switch {
	case fs.NArg() > 0:
		return options{}, fmt.Errorf("want flags only, found %q", fs.Arg(0))
	case o.deviceConfig == "":
		return options{}, errors.New("want --device-config-file")
	case (o.certFile == "") != (o.keyFile == ""):
		return options{}, errors.New("want both --cert_file and --key_file, or none")
	}
	return o, nil
}
