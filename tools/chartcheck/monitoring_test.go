package chartcheck

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// serviceMonitor and prometheusRule are the members that the chart uses of the
// Prometheus Operator's kinds, as its API reference has them. A member that is
// not here makes the chart's tests fail, so that it is looked up first.
type serviceMonitor struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		NamespaceSelector struct {
			MatchNames []string `json:"matchNames"`
		} `json:"namespaceSelector"`
		Selector  metav1.LabelSelector `json:"selector"`
		Endpoints []struct {
			Port        string `json:"port"`
			Path        string `json:"path"`
			Interval    string `json:"interval"`
			HonorLabels bool   `json:"honorLabels"`
			Relabelings []struct {
				SourceLabels []string `json:"sourceLabels"`
				TargetLabel  string   `json:"targetLabel"`
			} `json:"relabelings"`
		} `json:"endpoints"`
	} `json:"spec"`
}

type prometheusRule struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              ruleGroups `json:"spec"`
}

// ruleGroups is also what a rule file of Prometheus has.
type ruleGroups struct {
	Groups []struct {
		Name  string `json:"name"`
		Rules []struct {
			Record      string            `json:"record"`
			Alert       string            `json:"alert"`
			Expr        string            `json:"expr"`
			For         string            `json:"for"`
			Labels      map[string]string `json:"labels"`
			Annotations map[string]string `json:"annotations"`
		} `json:"rules"`
	} `json:"groups"`
}

func (s *serviceMonitor) DeepCopyObject() runtime.Object { c := *s; return &c }
func (s *prometheusRule) DeepCopyObject() runtime.Object { c := *s; return &c }

// decodeMonitoring decodes the Prometheus Operator's kinds; of others it is nil.
func decodeMonitoring(document []byte) (runtime.Object, error) {
	var kind struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
	}
	if err := yaml.Unmarshal(document, &kind); err != nil || kind.APIVersion != "monitoring.coreos.com/v1" {
		return nil, err
	}
	var object runtime.Object
	switch kind.Kind {
	case "ServiceMonitor":
		object = &serviceMonitor{}
	case "PrometheusRule":
		object = &prometheusRule{}
	default:
		return nil, fmt.Errorf("kind %q of %s is not known here", kind.Kind, kind.APIVersion)
	}
	return object, unmarshalStrict(document, object)
}

// unmarshalStrict reads YAML by the JSON tags of a type. A member that the type
// does not have, or that is there twice, is an error.
func unmarshalStrict(document []byte, into any) error {
	var v any
	if err := yaml.Unmarshal(document, &v); err != nil {
		return err
	}
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

const everythingOn = "monitor.enabled=true,monitor.serviceMonitor.enabled=true,monitor.rules.enabled=true,monitor.dashboard.enabled=true"

// The chart asks for nothing of the Prometheus Operator that it is not told to.
func TestMonitoringIsOffByDefault(t *testing.T) {
	for _, line := range []string{"monitor.enabled=false", "monitor.enabled=true"} {
		if out := render(t, set(t, line)); strings.Contains(out, "monitoring.coreos.com") || strings.Contains(out, "kind: Service\n") || strings.Contains(out, "dashboard") {
			t.Errorf("%s has objects of a monitoring stack", line)
		}
	}
}

// The ServiceMonitor finds the Service, the Service the pods and their port,
// and the labels of the tenants stay theirs.
func TestServiceMonitor(t *testing.T) {
	v := set(t, everythingOn, `monitor.metricsBindAddress=[::]:9400`, "monitor.serviceMonitor.labels.release=stack", "monitor.serviceMonitor.interval=30s")
	sm, service := find[*serviceMonitor](t, v), find[*corev1.Service](t, v)
	ds := named[*appsv1.DaemonSet](t, v, "k8s-vgpu-monitor")
	if sm.Labels["release"] != "stack" {
		t.Errorf("labels %v, want release=stack", sm.Labels)
	}
	if diff := cmp.Diff([]string{service.Namespace}, sm.Spec.NamespaceSelector.MatchNames); diff != "" {
		t.Errorf("namespaces (-want +got):\n%s", diff)
	}
	for k, want := range sm.Spec.Selector.MatchLabels {
		if got := service.Labels[k]; got != want {
			t.Errorf("the Service's label %s is %q, selected %q", k, got, want)
		}
	}
	for k, want := range service.Spec.Selector {
		if got := ds.Spec.Template.Labels[k]; got != want {
			t.Errorf("the pods' label %s is %q, selected %q", k, got, want)
		}
	}
	if len(sm.Spec.Endpoints) != 1 || len(service.Spec.Ports) != 1 {
		t.Fatalf("%d endpoints, %d ports, want one of each", len(sm.Spec.Endpoints), len(service.Spec.Ports))
	}
	e, port, container := sm.Spec.Endpoints[0], service.Spec.Ports[0], pluginContainer(t, ds)
	if e.Port != port.Name || port.TargetPort.String() != container.Ports[0].Name || port.Port != container.Ports[0].ContainerPort || port.Port != 9400 {
		t.Errorf("endpoint %q, port %v, container port %v", e.Port, port, container.Ports)
	}
	if service.Spec.ClusterIP != corev1.ClusterIPNone || !service.Spec.PublishNotReadyAddresses {
		t.Errorf("the Service is %q, publishNotReadyAddresses %t", service.Spec.ClusterIP, service.Spec.PublishNotReadyAddresses)
	}
	if !e.HonorLabels || e.Path != "/metrics" || e.Interval != "30s" || len(e.Relabelings) != 1 || e.Relabelings[0].TargetLabel != "node" {
		t.Errorf("endpoint %+v", e)
	}
	// AMDGPUMonitorDown goes by the job, which is the Service's name.
	if want := `job="` + service.Name + `"`; !strings.Contains(render(t, v), want) {
		t.Errorf("no rule names %s", want)
	}
	if a := ds.Spec.Template.Annotations; a != nil {
		t.Errorf("the pods have the annotations %v: they would be scraped twice", a)
	}
}

// The PrometheusRule has the rules of the file as they are there.
func TestRules(t *testing.T) {
	source, err := os.ReadFile(chartDir + "/files/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var want ruleGroups
	if err := unmarshalStrict(source, &want); err != nil {
		t.Fatal(err)
	}
	rule := find[*prometheusRule](t, set(t, everythingOn, "monitor.rules.labels.release=stack"))
	if diff := cmp.Diff(want, rule.Spec); diff != "" {
		t.Errorf("rules (-file +rendered):\n%s", diff)
	}
	if rule.Labels["release"] != "stack" {
		t.Errorf("labels %v, want release=stack", rule.Labels)
	}
	for _, g := range want.Groups {
		for _, r := range g.Rules {
			if r.Alert == "" {
				continue
			}
			const runbook = "https://github.com/Project-HAMi/hami-amd/blob/main/docs/monitor.md#"
			if got, want := r.Annotations["runbook_url"], runbook+strings.ToLower(r.Alert); got != want {
				t.Errorf("%s: runbook_url is %q, want %q", r.Alert, got, want)
			}
			for _, name := range []string{"summary", "description"} {
				if !strings.HasSuffix(r.Annotations[name], ".") {
					t.Errorf("%s: %s is %q, want sentences", r.Alert, name, r.Annotations[name])
				}
			}
			if !slices.Contains([]string{"info", "warning", "critical"}, r.Labels["severity"]) || r.For == "" {
				t.Errorf("%s: severity %q, for %q", r.Alert, r.Labels["severity"], r.For)
			}
		}
	}
}

// dashboard is what is looked at of a Grafana dashboard.
type dashboard struct {
	UID, Title string
	Panels     []struct {
		ID                       int
		Type, Title, Description string
		Datasource               struct{ UID string }
		GridPos                  struct{ X, Y, W, H int }
		Targets                  []struct {
			RefID, Expr string
			Datasource  struct{ UID string }
		}
	}
	Templating struct{ List []struct{ Name string } }
}

// The ConfigMap has the dashboard that the file has, and no two of its panels
// share an id or a place.
func TestDashboard(t *testing.T) {
	cm := named[*corev1.ConfigMap](t, set(t, everythingOn, "monitor.dashboard.annotations.grafana_folder=GPUs"), "k8s-vgpu-monitor-dashboard")
	if cm.Labels["grafana_dashboard"] != "1" || cm.Annotations["grafana_folder"] != "GPUs" {
		t.Errorf("labels %v, annotations %v", cm.Labels, cm.Annotations)
	}
	file, err := os.ReadFile(chartDir + "/files/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(bytes.TrimSpace(file)), strings.TrimSpace(cm.Data["amd-gpu.json"])); diff != "" {
		t.Errorf("dashboard (-file +rendered):\n%s", diff)
	}
	var d dashboard
	if err := json.Unmarshal(file, &d); err != nil {
		t.Fatal(err)
	}
	if d.UID == "" || d.Title == "" || len(d.Panels) == 0 {
		t.Fatalf("uid %q, title %q, %d panels", d.UID, d.Title, len(d.Panels))
	}
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if ids[p.ID] {
			t.Errorf("two panels have the id %d", p.ID)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other, ok := taken[[2]int{x, y}]; ok || x >= 24 {
					t.Fatalf("panel %q is in the place of %q, or beyond the 24 columns", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.Title == "" || len(p.Targets) == 0 {
			t.Errorf("panel %d, %q, has %d queries", p.ID, p.Title, len(p.Targets))
		}
		for _, target := range p.Targets {
			if target.Datasource.UID != "${datasource}" || target.Expr == "" {
				t.Errorf("panel %q, query %s: data source %q, expression %q", p.Title, target.RefID, target.Datasource.UID, target.Expr)
			}
		}
	}
}
