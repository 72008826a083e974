package hamitest

import (
	"context"
	"encoding/json"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/Project-HAMi/HAMi/pkg/util/client"
)

// Nodes is the resource of nodes.
var Nodes = corev1.SchemeGroupVersion.WithResource("nodes")

// SetClient makes clients HAMi's until the test ends.
func SetClient(tb testing.TB, clients *fake.Clientset) *fake.Clientset {
	tb.Helper()
	before := client.KubeClient
	tb.Cleanup(func() { client.KubeClient = before })
	client.KubeClient = GuardVersions(clients)
	return clients
}

// GuardVersions gives a fake what it lacks: an API server refuses a patch that
// names a resourceVersion which is not the object's.
func GuardVersions(clients *fake.Clientset) *fake.Clientset {
	clients.PrependReactor("patch", "nodes", func(action clienttesting.Action) (bool, runtime.Object, error) {
		var patch struct {
			Metadata struct {
				ResourceVersion string             `json:"resourceVersion"`
				Annotations     map[string]*string `json:"annotations"`
			} `json:"metadata"`
		}
		a := action.(clienttesting.PatchAction)
		if err := json.Unmarshal(a.GetPatch(), &patch); err != nil {
			return true, nil, err
		}
		object, err := clients.Tracker().Get(Nodes, "", a.GetName())
		if err != nil {
			return true, nil, err
		}
		node := object.(*corev1.Node).DeepCopy()
		if v := patch.Metadata.ResourceVersion; v != "" && v != node.ResourceVersion {
			return true, nil, apierrors.NewConflict(Nodes.GroupResource(), node.Name, context.Canceled)
		}
		for key, value := range patch.Metadata.Annotations {
			if value == nil {
				delete(node.Annotations, key)
			} else {
				metav1.SetMetaDataAnnotation(&node.ObjectMeta, key, *value)
			}
		}
		return true, node, WriteNode(clients, node)
	})
	return clients
}

// WriteNode is somebody's write, which gives the node its next resourceVersion.
func WriteNode(clients *fake.Clientset, node *corev1.Node) error {
	version, err := strconv.Atoi(node.ResourceVersion)
	if err != nil {
		return err
	}
	node.ResourceVersion = strconv.Itoa(version + 1)
	return clients.Tracker().Update(Nodes, node, "")
}

// GetNode reads a node as the API server has it.
func GetNode(tb testing.TB, clients *fake.Clientset, name string) *corev1.Node {
	tb.Helper()
	node, err := clients.Tracker().Get(Nodes, "", name)
	if err != nil {
		tb.Fatal(err)
	}
	return node.(*corev1.Node)
}
