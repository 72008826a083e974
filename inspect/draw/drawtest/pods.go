package drawtest

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// An ask is what one container wants; no percent and no memory is whole GPUs.
type ask struct {
	container    string
	init         bool
	gpus         int64
	percent, mib int64
}

// A workload is a kind of pod, and how often it comes.
type workload struct {
	weight          int
	namespace, name string
	asks            []ask
}

// shared are the workloads of nodes that share GPUs by CUs, parted those of
// nodes with compute partitions.
var shared = []workload{
	{6, "llm", "chat", []ask{{container: "vllm", gpus: 1, percent: 25, mib: 49152}}},
	{4, "llm", "summarize", []ask{{container: "vllm", gpus: 1, percent: 33, mib: 65536}}},
	{5, "search", "embed", []ask{{container: "tei", gpus: 1, percent: 10, mib: 16384}}},
	{3, "vision", "detect", []ask{{container: "triton", gpus: 1, percent: 15, mib: 24576}}},
	{4, "research", "notebook", []ask{{container: "jupyter", gpus: 1, percent: 5, mib: 8192}}},
	{2, "research", "finetune", []ask{{container: "train", gpus: 2, percent: 50, mib: 98304}}},
	{1, "research", "pretrain", []ask{{container: "train", gpus: 2}}},
	{2, "search", "rerank", []ask{
		{container: "serve", gpus: 1, percent: 12, mib: 20480}, {container: "encode", gpus: 1, percent: 8, mib: 12288}}},
	{1, "vision", "segment", []ask{
		{container: "warm-up", init: true, gpus: 1, percent: 20, mib: 32768}, {container: "serve", gpus: 1, percent: 20, mib: 32768}}},
}

var parted = []workload{
	{6, "llm", "small-chat", []ask{{container: "vllm", gpus: 1}}},
	{2, "llm", "tensor-parallel", []ask{{container: "vllm", gpus: 2}}},
	{3, "search", "index", []ask{{container: "faiss", gpus: 1}}},
	{1, "research", "sweep", []ask{{container: "run", gpus: 4}}},
}

func pick(random *rand.Rand, workloads []workload) workload {
	total := 0
	for _, w := range workloads {
		total += w.weight
	}
	at := random.IntN(total)
	for _, w := range workloads {
		if at -= w.weight; at < 0 {
			return w
		}
	}
	return workloads[0]
}

const suffix = "bcdfghjklmnpqrstvwxz2456789" // what Kubernetes makes names of

func word(random *rand.Rand, letters int) string {
	b := make([]byte, letters)
	for i := range b {
		b[i] = suffix[random.IntN(len(suffix))]
	}
	return string(b)
}

// pod is a pod of a workload as its author's controller makes it.
func (w workload) pod(random *rand.Rand, n int, created time.Time) *corev1.Pod {
	pod := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.namespace, Name: fmt.Sprintf("%s-%s-%s", w.name, word(random, 9), word(random, 5)),
			UID:               types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", n+1)),
			CreationTimestamp: metav1.NewTime(created),
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, a := range w.asks {
		limits := corev1.ResourceList{"amd.com/gpu": quantity(a.gpus)}
		if a.percent > 0 {
			limits["amd.com/gpucores"] = quantity(a.percent)
		}
		if a.mib > 0 {
			limits["amd.com/gpumem"] = quantity(a.mib)
		}
		c := corev1.Container{Name: a.container, Resources: corev1.ResourceRequirements{Limits: limits, Requests: limits.DeepCopy()}}
		if a.init {
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
		} else {
			pod.Spec.Containers = append(pod.Spec.Containers, c)
		}
	}
	return pod
}

func quantity(n int64) resource.Quantity { return resource.MustParse(strconv.FormatInt(n, 10)) }
