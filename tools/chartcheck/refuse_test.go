package chartcheck

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"helm.sh/helm/v3/pkg/strvals"
)

// set reads what a person types after --set; JSON values are given as
// name=:{...} and stand for --set-json.
func set(t *testing.T, lines ...string) values {
	t.Helper()
	v := values{}
	for _, line := range lines {
		var err error
		if name, json, ok := strings.Cut(line, "=:"); ok {
			err = strvals.ParseJSON(name+"="+json, v)
		} else {
			err = strvals.ParseInto(line, v)
		}
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	return v
}

type refusal struct {
	set        []string
	kubernetes string
	want       string // in the error
}

// refusals are settings that the schema refuses with the value's name, and those
// that validation.yaml refuses with what to do instead.
func refusals() map[string]refusal {
	return map[string]refusal{
		"a value that does not exist":     {set: []string{"dp.splitcount=2"}, want: "splitcount"},
		"a top value that does not exist": {set: []string{"splitCount=2"}, want: "splitCount"},
		"a negative split count":          {set: []string{"dp.splitCount=-1"}, want: "/dp/splitCount"},
		"half a pod":                      {set: []string{"dp.splitCount=:2.5"}, want: "/dp/splitCount"},
		"a split count that is text":      {set: []string{"dp.splitCount=ten"}, want: "/dp/splitCount"},
		"an unknown operating mode":       {set: []string{"dp.operatingMode=mig"}, want: "/dp/operatingMode"},
		"a mode in capitals":              {set: []string{"dp.computePartition=CPX"}, want: "/dp/computePartition"},
		"an unknown policy":               {set: []string{"dp.allocatorPolicy=random"}, want: "/dp/allocatorPolicy"},
		"a switch that is text":           {set: []string{`dp.dmemBackend=on`}, want: "/dp/dmemBackend"},
		"a text that names no GPU":        {set: []string{`dp.excludeGPUs=card1\,gpu2`}, want: "/dp/excludeGPUs"},
		"a text that ends in a comma":     {set: []string{`dp.excludeGPUs=card1\,`}, want: "/dp/excludeGPUs"},
		"a GPU by its index":              {set: []string{"dp.excludeGPUs={1}"}, want: "/dp/excludeGPUs/0"},
		"a card with a leading zero":      {set: []string{"dp.excludeGPUs={card01}"}, want: "/dp/excludeGPUs/0"},
		"a split count without end":       {set: []string{"dp.splitCount=1025"}, want: "/dp/splitCount"},
		"a verbosity beyond all":          {set: []string{"dp.logVerbosity=11"}, want: "/dp/logVerbosity"},
		"a pulse of two days":             {set: []string{"dp.healthPulse=172800"}, want: "/dp/healthPulse"},
		"a PCI address without domain":    {set: []string{"dp.excludeGPUs={06:00.0}"}, want: "/dp/excludeGPUs/0"},
		"no scaling":                      {set: []string{"dp.deviceMemoryScaling=0"}, want: "/dp/deviceMemoryScaling"},
		"no scaling in other words":       {set: []string{"dp.deviceMemoryScaling=0.0"}, want: "/dp/deviceMemoryScaling"},
		"a negative scaling":              {set: []string{"dp.deviceMemoryScaling=-1.5"}, want: "/dp/deviceMemoryScaling"},
		"a scaling in words":              {set: []string{"dp.deviceMemoryScaling=double"}, want: "/dp/deviceMemoryScaling"},
		"an unknown strategy":             {set: []string{"dp.resourceNamingStrategy=many"}, want: "/dp/resourceNamingStrategy"},
		"CDI as a switch":                 {set: []string{"dp.cdi=true"}, want: "/dp/cdi"},
		"a relative spec directory":       {set: []string{"dp.cdi.specDir=cdi"}, want: "/dp/cdi/specDir"},
		"a log level beyond debug":        {set: []string{"dp.hipLogLevel=5"}, want: "/dp/hipLogLevel"},
		"a negative verbosity":            {set: []string{"dp.logVerbosity=-1"}, want: "/dp/logVerbosity"},
		"a negative pulse":                {set: []string{"dp.healthPulse=-10"}, want: "/dp/healthPulse"},
		"a pulse with a unit":             {set: []string{"dp.healthPulse=10s"}, want: "/dp/healthPulse"},
		"the root as the hook's path":     {set: []string{"dp.hostHookPath=/"}, want: "/dp/hostHookPath"},
		"a hook path that climbs":         {set: []string{"dp.hostHookPath=/usr/../etc"}, want: "/dp/hostHookPath"},
		"a hook path with a colon":        {set: []string{"dp.hostHookPath=/usr:local"}, want: "/dp/hostHookPath"},
		"a relative ctr":                  {set: []string{"dp.muslFailClosed.ctrPath=ctr"}, want: "/dp/muslFailClosed/ctrPath"},
		"a tag with a digest":             {set: []string{"dp.image.tag=dev@sha256:00"}, want: "/dp/image/tag"},
		"a section that is taken away":    {set: []string{"dp.cdi=null"}, want: "cdi"},
		"metrics at no port":              {set: []string{"monitor.metricsBindAddress=localhost"}, want: "/monitor/metricsBindAddress"},
		"metrics beyond the last port":    {set: []string{"monitor.metricsBindAddress=0.0.0.0:65536"}, want: "/monitor/metricsBindAddress"},
		"an interval in words":            {set: []string{"monitor.serviceMonitor.interval=often"}, want: "/monitor/serviceMonitor/interval"},
		"labels that are a list":          {set: []string{"monitor.rules.labels={a}"}, want: "/monitor/rules/labels"},
		"a folder that is a number":       {set: []string{"monitor.dashboard.annotations.grafana_folder=1"}, want: "/monitor/dashboard/annotations/grafana_folder"},
		"settings of no node":             {set: []string{`dp.nodeConfig=:[{"splitCount": 2}]`}, want: "/dp/nodeConfig/0"},
		"settings of a node as an object": {set: []string{`dp.nodeConfig=:{"node-1": {"splitCount": 2}}`}, want: "/dp/nodeConfig"},
		"a key of another plugin":         {set: []string{`dp.nodeConfig=:[{"name": "node-1", "migstrategy": "none"}]`}, want: "migstrategy"},

		"one node twice": {set: []string{`dp.nodeConfig=:[{"name": "node-1"}, {"name": "node-2"}, {"name": "node-1", "splitCount": 2}]`},
			want: `dp.nodeConfig has two entries of node "node-1": put their settings into one`},
		"an account that nobody names": {set: []string{"dp.serviceAccount.create=false"},
			want: "set dp.serviceAccount.name to one in the release's namespace"},
		"a plugin without privileges": {set: []string{"dp.securityContext.privileged=false"},
			want: "KFD shows a container only the GPUs it may use: leave it at true"},
		"privileged and not": {set: []string{"dp.securityContext.allowPrivilegeEscalation=false"},
			want: "is refused by Kubernetes for a privileged container: remove it"},
		"a socket outside of its directory": {
			set:  []string{"dp.muslFailClosed.enabled=true", "dp.muslFailClosed.containerdSocket=/run/containerd/containerd.sock"},
			want: `set both, containerdSocketDir to "/run/containerd"`},
		"a socket beside its directory": {
			set:  []string{"dp.muslFailClosed.enabled=true", "dp.muslFailClosed.containerdSocket=/run/k3s/containerd2/containerd.sock"},
			want: `set both, containerdSocketDir to "/run/k3s/containerd2"`},
		"rules about nothing": {set: []string{"monitor.rules.enabled=true"},
			want: "monitor.rules.enabled=true is about metrics that nothing serves: set monitor.enabled=true"},
		"a dashboard of nothing": {set: []string{"monitor.dashboard.enabled=true"},
			want: "monitor.dashboard.enabled=true is about metrics that nothing serves: set monitor.enabled=true"},
		"a ServiceMonitor of nothing": {set: []string{"monitor.serviceMonitor.enabled=true"},
			want: "monitor.serviceMonitor.enabled=true is about metrics that nothing serves: set monitor.enabled=true"},
		"a ServiceMonitor of the loopback": {set: []string{"monitor.enabled=true", "monitor.serviceMonitor.enabled=true", "monitor.metricsBindAddress=127.0.0.1:9394"},
			want: `monitor.metricsBindAddress="127.0.0.1:9394" is the node's own loopback`},
		"a ServiceMonitor of the other loopback": {set: []string{"monitor.enabled=true", "monitor.serviceMonitor.enabled=true", "monitor.metricsBindAddress=[::1]:9394"},
			want: "where Prometheus finds nothing"},
		"CDI before kubelet knows it": {set: []string{"dp.cdi.enabled=true"}, kubernetes: "v1.27.16+rke2r2",
			want: "needs Kubernetes 1.28 or newer, whose kubelet passes on CDI device names, and this is v1.27.16: leave it at false"},
	}
}

func TestRefused(t *testing.T) {
	for name, test := range refusals() {
		t.Run(name, func(t *testing.T) {
			_, err := renderChart(load(t), set(t, test.set...), test.kubernetes)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}

func TestAccepted(t *testing.T) {
	for name, test := range map[string]struct {
		set        []string
		kubernetes string
	}{
		"a scaling after --set":             {set: []string{"dp.deviceMemoryScaling=1.5"}},
		"a scaling below one":               {set: []string{"dp.deviceMemoryScaling=0.5"}},
		"a hook path with a slash at last":  {set: []string{"dp.hostHookPath=/opt/hami/"}},
		"hidden directories":                {set: []string{"dp.hostHookPath=/opt/.hami/..data"}},
		"a GPU in a large domain":           {set: []string{"dp.excludeGPUs={10000:06:00.0,0000:C6:1f.7,card12}"}},
		"a subchart":                        {set: []string{"global.registry=example.com"}},
		"CDI with the first kubelet for it": {set: []string{"dp.cdi.enabled=true"}, kubernetes: "v1.28.0"},
		"CDI with a build of a provider":    {set: []string{"dp.cdi.enabled=true"}, kubernetes: "v1.28.3-gke.1203001"},
		"no CDI with an old kubelet":        {kubernetes: "v1.19.0"},
		"a monitor of the loopback":         {set: []string{"monitor.enabled=true", "monitor.metricsBindAddress=127.0.0.1:9394"}},
		"an interval in minutes":            {set: []string{"monitor.enabled=true", "monitor.serviceMonitor.enabled=true", "monitor.serviceMonitor.interval=1m"}},
		"metrics at the last port":          {set: []string{"monitor.enabled=true", "monitor.metricsBindAddress=0.0.0.0:65535"}},
		"no resources":                      {set: []string{"dp.resources=null", "tolerations=null"}},
		"a socket nobody uses":              {set: []string{"dp.muslFailClosed.containerdSocket=/run/containerd/containerd.sock"}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := renderChart(load(t), set(t, test.set...), test.kubernetes); err != nil {
				t.Error(err)
			}
		})
	}
}

// Text that YAML would read as something else arrives as it was given.
func TestTextStaysText(t *testing.T) {
	for name, text := range map[string]string{
		"digits":          "123",
		"a truth":         "true",
		"a comment":       "a #b",
		"a member":        "a: b",
		"an alias":        "*a",
		"lines":           "a\"b'\n- c: {{ .Values }}\n",
		"other templates": "{{ fail \"x\" }}",
	} {
		t.Run(name, func(t *testing.T) {
			v := values{
				"priorityClassName": text,
				"dp":                values{"image": values{"repository": text, "tag": "1.0"}, "serviceAccount": values{"name": text}},
				"monitor":           values{"enabled": true},
			}
			plugin := named[*appsv1.DaemonSet](t, v, "amd-gpu-device-plugin-daemonset").Spec.Template.Spec
			monitor := named[*appsv1.DaemonSet](t, v, "k8s-vgpu-monitor").Spec.Template.Spec
			got := []string{plugin.PriorityClassName, plugin.ServiceAccountName, named[*corev1.ServiceAccount](t, v, text).Name,
				plugin.InitContainers[0].Image, plugin.Containers[0].Image, monitor.Containers[0].Image}
			image := text + ":1.0"
			if diff := cmp.Diff([]string{text, text, text, image, image, image}, got); diff != "" {
				t.Errorf("text (-want +got):\n%s", diff)
			}
		})
	}
}

// Each call of fail in validation.yaml is reached by one of the refusals.
func TestEveryRefusalIsTested(t *testing.T) {
	reached := map[string]bool{}
	at := regexp.MustCompile(`validation\.yaml:(\d+):`)
	for _, test := range refusals() {
		_, err := renderChart(load(t), set(t, test.set...), test.kubernetes)
		if err == nil {
			t.Fatalf("%v is accepted", test.set)
		}
		if m := at.FindStringSubmatch(err.Error()); m != nil {
			reached[m[1]] = true
		}
	}
	calls := 0
	for _, f := range load(t).Templates {
		if f.Name == "templates/validation.yaml" {
			calls = len(regexp.MustCompile(`{{- fail `).FindAll(f.Data, -1))
		}
	}
	if calls == 0 || calls != len(reached) {
		t.Errorf("%d calls of fail, %d of them reached", calls, len(reached))
	}
}

// Values that are taken away with null are refused by the schema or not
// needed: never an error inside a template.
func TestNullIsNoTemplateError(t *testing.T) {
	var names func(prefix string, v values) []string
	names = func(prefix string, v values) []string {
		var out []string
		for k, inner := range v {
			out = append(out, prefix+k)
			if m, ok := inner.(values); ok && !strings.Contains(k, ".") {
				out = append(out, names(prefix+k+".", m)...)
			}
		}
		return out
	}
	all := names("", load(t).Values)
	if len(all) < 40 {
		t.Fatalf("%d values found", len(all))
	}
	for _, name := range all {
		if strings.Contains(name, "/") {
			continue // a label, not a value
		}
		_, err := renderChart(load(t), set(t, name+"=null"), "")
		if err != nil && !strings.Contains(err.Error(), "don't meet the specifications of the schema") &&
			!strings.Contains(err.Error(), "validation.yaml") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
