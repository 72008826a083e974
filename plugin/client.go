package plugin

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// NewClient makes a client for Deps from a kubeconfig file, or from the pod's
// service account if the path is "".
//
// It knows the API's core group and nothing else, so that a program with it
// does not carry every type of Kubernetes, as one with a clientset does.
func NewClient(kubeconfig string) (rest.Interface, error) {
	var (
		cfg *rest.Config
		err error
	)
	if kubeconfig == "" {
		if cfg, err = rest.InClusterConfig(); errors.Is(err, rest.ErrNotInCluster) {
			err = fmt.Errorf("this is no pod of a cluster: want -kubeconfig, or -standalone to work without an API server: %w", err)
		}
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
	client, err := coreClient(cfg)
	if err != nil {
		return nil, fmt.Errorf("client for the API server: %w", err)
	}
	return client, nil
}

// coreClient completes a configuration as client-go does for its client of the
// core group.
func coreClient(cfg *rest.Config) (*rest.RESTClient, error) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	cfg.GroupVersion, cfg.APIPath = &corev1.SchemeGroupVersion, "/api"
	cfg.NegotiatedSerializer = rest.CodecFactoryForGeneratedClient(scheme, serializer.NewCodecFactory(scheme)).WithoutConversion()
	return rest.RESTClientFor(cfg)
}
