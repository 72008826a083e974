package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
)

// Apply creates or updates the objects of some YAML documents, such as a
// rendered chart, by server-side apply. An object of a namespaced kind that
// names no namespace goes into namespace. The API server checks strictly: an
// unknown or repeated field is an error.
func (c *Cluster) Apply(ctx context.Context, namespace, documents string) error {
	discoverer, err := discovery.NewDiscoveryClientForConfig(c.admin)
	if err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	groups, err := restmapper.GetAPIGroupResources(discoverer)
	if err != nil {
		return fmt.Errorf("apply: find the API server's kinds: %w", err)
	}
	mapper := restmapper.NewDiscoveryRESTMapper(groups)
	client, err := dynamic.NewForConfig(c.admin)
	if err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(documents), 4096)
	for i := 0; ; i++ {
		var object unstructured.Unstructured
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("apply: document %d: %w", i, err)
		}
		if len(object.Object) == 0 {
			continue // nothing but comments
		}
		if err := applyObject(ctx, client, mapper, namespace, &object); err != nil {
			return fmt.Errorf("apply %s %q: %w", object.GetKind(), object.GetName(), err)
		}
	}
}

func applyObject(ctx context.Context, client dynamic.Interface, mapper meta.RESTMapper, namespace string, object *unstructured.Unstructured) error {
	kind := object.GroupVersionKind()
	mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return err
	}
	var resource dynamic.ResourceInterface = client.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		if object.GetNamespace() == "" {
			object.SetNamespace(namespace)
		}
		resource = client.Resource(mapping.Resource).Namespace(object.GetNamespace())
	}
	data, err := object.MarshalJSON()
	if err != nil {
		return err
	}
	force := true
	_, err = resource.Patch(ctx, object.GetName(), types.ApplyPatchType, data, metav1.PatchOptions{
		FieldManager: "e2e", Force: &force, FieldValidation: metav1.FieldValidationStrict,
	})
	return err
}
