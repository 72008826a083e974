//go:build cgo

// Command scheduler is HAMi's scheduler extender and admission webhook with
// hami-amd's backend in place of HAMi's own for AMD GPUs. It takes HAMi's flags
// and device configuration, and of the latter's block "amd" all keys of
// amd.Config.
//
// HAMi has no way to plug a backend in: it makes all its own when it reads the
// configuration. So this program lets it, puts one more into the map, and starts
// HAMi's scheduler as HAMi's own program does. That needs cgo as HAMi does, for
// NVIDIA's library. HAMi's scheduler metrics are part of its own program, which
// cannot be imported, and are not served here.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/klog/v2"

	"github.com/Project-HAMi/HAMi/pkg/device"
	"github.com/Project-HAMi/HAMi/pkg/scheduler"
	"github.com/Project-HAMi/HAMi/pkg/scheduler/config"
	"github.com/Project-HAMi/HAMi/pkg/scheduler/routes"
	"github.com/Project-HAMi/HAMi/pkg/util/client"
	"github.com/Project-HAMi/HAMi/pkg/util/nodelock"

	"github.com/Project-HAMi/hami-amd/hami"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "scheduler:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	opts, err := parseFlags(args)
	if err != nil {
		return err
	}
	nodelock.NodeLockTimeout = config.NodeLockTimeout
	client.InitGlobalClient(client.WithBurst(config.Burst), client.WithQPS(config.QPS), client.WithTimeout(config.Timeout))
	config.InitDevices()
	backend, err := newBackend(opts.deviceConfig)
	if err != nil {
		return err
	}
	device.DevicesMap[hami.CommonWord] = backend // before HAMi's scheduler starts
	if config.HostName, err = os.Hostname(); err != nil {
		return fmt.Errorf("host name: %w", err)
	}
	s := scheduler.NewScheduler()
	go s.RegisterFromNodeAnnotations()
	if err := s.Start(); err != nil {
		return err
	}
	defer s.Stop()
	klog.InfoS("Listening", "address", config.HTTPBind)
	return serve(ctx, config.HTTPBind, opts.certFile, opts.keyFile, handler(s))
}

// newBackend is the backend as HAMi's device configuration has it.
func newBackend(deviceConfig string) (device.Devices, error) {
	file, err := os.ReadFile(deviceConfig)
	if err != nil {
		return nil, err
	}
	amdConfig, err := hami.ParseDeviceConfig(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", deviceConfig, err)
	}
	backend, err := hami.New(amdConfig)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", deviceConfig, err)
	}
	return backend, nil
}

// handler serves what kube-scheduler and the API server ask of HAMi.
func handler(s *scheduler.Scheduler) http.Handler {
	filter, bind, webhook := routes.PredicateRoute(s), routes.Bind(s), routes.WebHookRoute()
	healthz, readyz := routes.HealthzRoute(), routes.ReadyzRoute(s)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /filter", func(w http.ResponseWriter, r *http.Request) { filter(w, r, nil) })
	mux.HandleFunc("POST /bind", func(w http.ResponseWriter, r *http.Request) { bind(w, r, nil) })
	mux.HandleFunc("POST /webhook", func(w http.ResponseWriter, r *http.Request) { webhook(w, r, nil) })
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) { healthz(w, r, nil) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) { readyz(w, r, nil) })
	return mux
}
