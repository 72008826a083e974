package chartcheck

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
)

const (
	example  = "../../examples/deviceplugin"
	chartDir = example + "/chart"

	// kubernetesVersion is what the chart is rendered for. A Helm that is built
	// by "go build" would say v1.20.0.
	kubernetesVersion = "v1.36.3"
)

var update = flag.Bool("update", false, "write the files that are compared with the chart")

// values are given on top of the chart's own.
type values = map[string]any

func load(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := loader.Load(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// renderChart renders a chart as "helm template amd-gpu -n kube-system" does, for
// a version of Kubernetes or, if "", the usual one. It returns the templates'
// text by their name in the chart.
func renderChart(c *chart.Chart, v values, kubernetes string) (map[string]string, error) {
	version, err := chartutil.ParseKubeVersion(cmp.Or(kubernetes, kubernetesVersion))
	if err != nil {
		return nil, err
	}
	capabilities := chartutil.DefaultCapabilities.Copy()
	capabilities.KubeVersion = *version
	options := chartutil.ReleaseOptions{Name: "amd-gpu", Namespace: "kube-system", Revision: 1, IsInstall: true}
	top, err := chartutil.ToRenderValues(c, v, options, capabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(c, top)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for name, text := range files {
		out[strings.TrimPrefix(name, c.Name()+"/templates/")] = text
	}
	return out, nil
}

// render renders the chart and returns its manifests as one stream, templates
// in the order of their names.
func render(t *testing.T, v values) string {
	t.Helper()
	files, err := renderChart(load(t), v, "")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if path.Ext(name) != ".yaml" || strings.TrimSpace(files[name]) == "" {
			continue
		}
		fmt.Fprintf(&out, "---\n# %s\n%s\n", name, strings.Trim(files[name], "\n"))
	}
	return out.String()
}

// decode reads a stream of manifests into the types of the Kubernetes API. A
// member that its type does not have, or that is there twice, is an error.
func decode(stream string) ([]runtime.Object, error) {
	codecs := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict)
	var out []runtime.Object
	for document := range strings.SplitSeq(stream, "---\n") {
		if strings.TrimSpace(document) == "" {
			continue
		}
		object, err := decodeMonitoring([]byte(document))
		if object == nil && err == nil {
			object, _, err = codecs.UniversalDeserializer().Decode([]byte(document), nil, nil)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, object)
	}
	return out, nil
}

// find returns the one object of a type in the chart rendered with v.
func find[T runtime.Object](t *testing.T, v values) T {
	t.Helper()
	objects, err := decode(render(t, v))
	if err != nil {
		t.Fatal(err)
	}
	var found []T
	for _, object := range objects {
		if o, ok := object.(T); ok {
			found = append(found, o)
		}
	}
	if len(found) != 1 {
		t.Fatalf("want one %T, found %d", *new(T), len(found))
	}
	return found[0]
}

// pluginContainer returns the plugin's container of a DaemonSet.
func pluginContainer(t *testing.T, ds *appsv1.DaemonSet) corev1.Container {
	t.Helper()
	if n := len(ds.Spec.Template.Spec.Containers); n != 1 {
		t.Fatalf("want one container, found %d", n)
	}
	return ds.Spec.Template.Spec.Containers[0]
}

// cases returns the values in testdata/values by the name of their file.
func cases(t *testing.T) map[string]values {
	t.Helper()
	files, err := filepath.Glob(example + "/testdata/values/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files of values, %v", len(files), err)
	}
	out := map[string]values{}
	for _, file := range files {
		v, err := chartutil.ReadValuesFile(file)
		if err != nil {
			t.Fatal(err)
		}
		out[strings.TrimSuffix(filepath.Base(file), ".yaml")] = v
	}
	return out
}

// compareFile compares text with a file, or writes the file with -update.
func compareFile(t *testing.T, file, text string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, []byte(text)) {
		t.Errorf("%s differs from what the chart gives: look at the difference after \"go test ./chartcheck -update\"", filepath.Base(file))
	}
}
