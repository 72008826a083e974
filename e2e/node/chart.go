package node

import (
	"errors"
	"fmt"
	"io"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// The plugin's container in its DaemonSet.
const container = "device-plugin"

// chart is how a rendering of the chart runs the plugin.
type chart struct {
	namespace, account string
	args               []string
	env                []corev1.EnvVar
}

// parseChart finds the plugin's DaemonSet among the documents.
func parseChart(documents string) (*chart, error) {
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(documents), 4096)
	for {
		var daemons appsv1.DaemonSet
		err := decoder.Decode(&daemons)
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("no DaemonSet with a container %q", container)
		}
		if err != nil {
			return nil, err
		}
		if daemons.Kind != "DaemonSet" {
			continue
		}
		spec := daemons.Spec.Template.Spec
		for _, c := range spec.Containers {
			if c.Name == container {
				return &chart{namespace: daemons.Namespace, account: spec.ServiceAccountName, args: c.Args, env: c.Env}, nil
			}
		}
	}
}

// environ is the container's environment on a node. override adds to it or
// replaces.
func (c *chart) environ(node string, override map[string]string) ([]string, error) {
	values := make(map[string]string)
	for _, e := range c.env {
		switch {
		case e.ValueFrom == nil:
			values[e.Name] = e.Value
		case e.ValueFrom.FieldRef != nil && e.ValueFrom.FieldRef.FieldPath == "spec.nodeName":
			values[e.Name] = node
		default:
			return nil, fmt.Errorf("variable %s: the value comes from where a test cannot look", e.Name)
		}
	}
	for name, value := range override {
		values[name] = value
	}
	var environ []string
	for name, value := range values {
		environ = append(environ, name+"="+value)
	}
	return environ, nil
}
