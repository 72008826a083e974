//go:build cgo

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/Project-HAMi/HAMi/pkg/device"
	"github.com/Project-HAMi/HAMi/pkg/scheduler/config"

	"github.com/Project-HAMi/hami-amd/hami"
	"github.com/Project-HAMi/hami-amd/hami/internal/hamitest"
)

func TestMain(m *testing.M) {
	if err := hamitest.Silence(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// The flags of HAMi's chart. They are HAMi's variables, which its scheduler
// reads in the other tests, so that this one has a process of its own.
func TestParseFlags(t *testing.T) {
	const own = "SCHEDULER_TEST_PARSE_FLAGS"
	if os.Getenv(own) == "" {
		test := exec.Command(os.Args[0], "-test.run=^TestParseFlags$")
		test.Env = append(os.Environ(), own+"=1")
		if out, err := test.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	args := []string{
		"--http_bind=0.0.0.0:443", "--cert_file=/tls/tls.crt", "--key_file=/tls/tls.key", "--scheduler-name=hami-scheduler",
		"--metrics-bind-address=:9395", "--node-scheduler-policy=spread", "--gpu-scheduler-policy=binpack",
		"--force-overwrite-default-scheduler=false", "--device-config-file=/device-config.yaml", "--leader-elect=true",
		"--leader-elect-resource-name=hami-scheduler", "--leader-elect-resource-namespace=kube-system",
		"--node-label-selector=gpu=on,zone=a", "--legacy-metrics=true", "--kube-qps=7.5", "--enable-iluvatar=true", "-v=4",
	}
	got, err := parseFlags(args)
	if err != nil {
		t.Fatal(err)
	}
	if want := (options{deviceConfig: "/device-config.yaml", certFile: "/tls/tls.crt", keyFile: "/tls/tls.key"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if config.HTTPBind != "0.0.0.0:443" || config.NodeSchedulerPolicy != "spread" || device.GPUSchedulerPolicy != "binpack" ||
		config.ForceOverwriteDefaultScheduler || !config.LeaderElect || config.QPS != 7.5 {
		t.Error("HAMi's variables are not what the flags say")
	}
	if diff := cmp.Diff(map[string]string{"gpu": "on", "zone": "a"}, config.NodeLabelSelector); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, args := range map[string][]string{
		"no configuration":  {"--http_bind=:1"},
		"half a key pair":   {"--device-config-file=/d", "--cert_file=/c"},
		"no flag of HAMi's": {"--device-config-file=/d", "--gpu-policy=spread"},
		"no selector":       {"--device-config-file=/d", "--node-label-selector=gpu"},
		"an argument":       {"--device-config-file=/d", "start"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := parseFlags(args); err == nil {
				t.Errorf("%+v, want an error", got)
			}
		})
	}
}

func TestNewBackend(t *testing.T) {
	file := filepath.Join(t.TempDir(), "device-config.yaml")
	write := func(s string) {
		if err := os.WriteFile(file, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("nvidia: {resourceCountName: nvidia.com/gpu}\namd: {resourceCountName: example.com/gpu, disableScore: true}\n")
	got, err := newBackend(file)
	if _, ok := got.(*hami.Devices); err != nil || !ok || got.GetResourceNames().ResourceCountName != "example.com/gpu" {
		t.Errorf("%T, %v, want one with the file's configuration", got, err)
	}
	for name, content := range map[string]string{
		"a wrong value":  "amd: {resourceCountName: gpu}\n",
		"an unknown key": "amd: {resourceCuntName: amd.com/gpu}\n",
		"not YAML":       "amd: {",
	} {
		t.Run(name, func(t *testing.T) {
			write(content)
			if got, err := newBackend(file); got != nil || err == nil || !strings.Contains(err.Error(), file) {
				t.Errorf("%v, %v, want the file named", got, err)
			}
		})
	}
	if got, err := newBackend(file + ".not"); got != nil || !os.IsNotExist(err) {
		t.Errorf("%v, %v", got, err)
	}
}

// A pod's way through the program: webhook, filter, bind.
func TestHandler(t *testing.T) {
	c := newCluster(t, hamitest.Node(t, "handler", hamitest.MI300X("handler-")))
	config.SchedulerName = "hami-scheduler"
	t.Cleanup(func() { config.SchedulerName = "" })
	server := httptest.NewServer(handler(c.Scheduler))
	t.Cleanup(server.Close)

	refused := admissionOf(t, server.URL, hamitest.Pod("bad", nil, hamitest.Container("main", "1", "16Gi", "")))
	if refused.Allowed || !strings.Contains(refused.Result.Message, "write 16384") {
		t.Errorf("%+v, want the pod refused with a hint", refused)
	}
	admitted := admissionOf(t, server.URL, hamitest.Pod("p", nil, hamitest.Container("main", "", "16384", "25")))
	if !admitted.Allowed || !strings.Contains(string(admitted.Patch), `/limits/amd.com~1gpu","value":"1"`) {
		t.Errorf("%+v %s, want the pod admitted with a number of GPUs", admitted, admitted.Patch)
	}

	pod := hamitest.Pod("handled", nil, hamitest.Slice("main"))
	if _, err := c.clients.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.clients.CoreV1().Pods("default").Delete(context.Background(), pod.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	var found extenderv1.ExtenderFilterResult
	post(t, server.URL+"/filter", extenderv1.ExtenderArgs{Pod: pod, NodeNames: &[]string{"handler"}}, &found)
	if found.Error != "" || found.NodeNames == nil || !cmp.Equal(*found.NodeNames, []string{"handler"}) {
		t.Fatalf("%+v, want the node", found)
	}
	var bound extenderv1.ExtenderBindingResult
	c.eventually("the pod is bound", func() bool {
		post(t, server.URL+"/bind", extenderv1.ExtenderBindingArgs{PodName: "handled", PodNamespace: "default", PodUID: "handled", Node: "handler"}, &bound)
		return !strings.Contains(bound.Error, "not found")
	})
	if bound.Error != "" {
		t.Fatal(bound.Error)
	}
	if node := c.pod("handled").Spec.NodeName; node != "handler" {
		t.Errorf("bound to %q", node)
	}
	response, err := http.Get(server.URL + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("healthz: %s", response.Status)
	}
}

func admissionOf(t *testing.T, url string, pod *corev1.Pod) *admissionv1.AdmissionResponse {
	t.Helper()
	raw, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	review := admissionv1.AdmissionReview{Request: &admissionv1.AdmissionRequest{
		UID: "1", Namespace: pod.Namespace, Name: pod.Name, Object: runtime.RawExtension{Raw: raw},
	}}
	review.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"))
	var answer admissionv1.AdmissionReview
	post(t, url+"/webhook", review, &answer)
	if answer.Response == nil {
		t.Fatal("no response")
	}
	return answer.Response
}

func post(t *testing.T, url string, question, answer any) {
	t.Helper()
	body, err := json.Marshal(question)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, answer); err != nil {
		t.Fatalf("%s: %v: %s", url, err, text)
	}
}
