package plugin

import (
	"fmt"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// NewClient makes a client for Deps from a kubeconfig file, or from the pod's
// service account if the path is "".
func NewClient(kubeconfig string) (kubernetes.Interface, error) {
	var (
		cfg *rest.Config
		err error
	)
	if kubeconfig == "" {
		cfg, err = rest.InClusterConfig()
	} else {
		cfg, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	}
	if err != nil {
		return nil, fmt.Errorf("client for the API server: %w", err)
	}
	cfg.UserAgent = "hami-amd-device-plugin"
	// Kubelet waits for Allocate, which makes a few calls per pod: the client's
	// own limit of 5 calls a second would make pods queue.
	cfg.QPS, cfg.Burst = 50, 100
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("client for the API server: %w", err)
	}
	return client, nil
}
