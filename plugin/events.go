package plugin

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/Project-HAMi/hami-amd/partition"
)

// Reasons of the events on the node.
const (
	eventModeChangedInUse = partition.EventModeChangedInUse
	eventUnhealthy        = "AMDGPUUnhealthy"
	eventMissing          = "AMDGPUMissing"
	eventRecovered        = "AMDGPURecovered"
	// eventSettingIgnored: a setting in an annotation of the node cannot be.
	eventSettingIgnored = "AMDGPUSettingIgnored"
)

// Reasons of the events on a pod.
const (
	// eventAnnotationIgnored: what the pod says it holds cannot be true.
	eventAnnotationIgnored = "AMDGPUAnnotationIgnored"
	// eventAnnotationRestored: what the plugin wrote was edited, and put back.
	eventAnnotationRestored = "AMDGPUAnnotationRestored"
)

const (
	eventComponent = "amd-gpu-device-plugin"
	// eventNamespace is where events about objects without a namespace are.
	eventNamespace = metav1.NamespaceDefault
	// eventQueue bounds the events that wait for an API server that is away.
	eventQueue = 64
	// eventTries is how often one is sent before it is given up.
	eventTries = 3
	// eventMessageBytes is what the API server accepts in a message.
	eventMessageBytes = 1024
)

// eventSender creates events in the background. It only ever creates: each is
// one the caller has decided is worth it.
type eventSender struct {
	cluster *cluster
	log     klog.Logger
	now     func() time.Time
	queue   chan *corev1.Event
	number  atomic.Uint64
}

func newEventSender(c *cluster, deps Deps) *eventSender {
	return &eventSender{cluster: c, log: deps.Log, now: deps.Now, queue: make(chan *corev1.Event, eventQueue)}
}

// node sends an event about the node. Kubelet's own events name the node in
// place of its uid, and kubectl describe looks for that.
func (e *eventSender) node(kind, reason, message string) {
	e.send(e.event(e.aboutNode(), kind, reason, message))
}

func (e *eventSender) aboutNode() corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: e.cluster.node, UID: types.UID(e.cluster.node)}
}

func (e *eventSender) pod(pod *corev1.Pod, kind, reason, message string) {
	e.send(e.event(corev1.ObjectReference{
		APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
	}, kind, reason, message))
}

func (e *eventSender) event(about corev1.ObjectReference, kind, reason, message string) *corev1.Event {
	now := metav1.NewTime(e.now())
	namespace := about.Namespace
	if namespace == "" {
		namespace = eventNamespace
	}
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			// As client-go names them, and unique also within one tick.
			Name:      fmt.Sprintf("%s.%x.%x", about.Name, now.UnixNano(), e.number.Add(1)),
			Namespace: namespace,
		},
		InvolvedObject: about, Type: kind, Reason: reason, Message: cut(message, eventMessageBytes),
		Source:         corev1.EventSource{Component: eventComponent, Host: e.cluster.node},
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
		ReportingController: eventComponent, ReportingInstance: e.cluster.node,
	}
}

func (e *eventSender) send(event *corev1.Event) {
	select {
	case e.queue <- event:
	default:
		e.log.Info("Event dropped: too many wait", "reason", event.Reason, "message", event.Message)
	}
}

// nodeOnce creates an event about the node unless there is the same one: its
// name follows from what it says, so that a plugin which starts again and again
// says it once for as long as the API server keeps events.
func (e *eventSender) nodeOnce(ctx context.Context, kind, reason, message string) {
	event := e.event(e.aboutNode(), kind, reason, message)
	sum := sha256.Sum256([]byte(reason + "\x00" + message))
	event.Name = fmt.Sprintf("%s.%x", e.cluster.node, sum[:8])
	e.create(ctx, event)
}

func (e *eventSender) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case event := <-e.queue:
			e.create(ctx, event)
		}
	}
}

func (e *eventSender) create(ctx context.Context, event *corev1.Event) {
	for try := 1; ; try++ {
		err := func() error {
			ctx, cancel := context.WithTimeout(ctx, e.cluster.request)
			defer cancel()
			return e.cluster.client.Post().UseProtobufAsDefault().
				Namespace(event.Namespace).Resource("events").Body(event).Do(ctx).Error()
		}()
		if err == nil || apierrors.IsAlreadyExists(err) { // by an earlier try, or an earlier start
			return
		}
		if !transient(err) || try == eventTries || !sleep(ctx, time.Duration(try)*time.Second) {
			e.log.Info("Event lost", "reason", event.Reason, "message", event.Message, "err", err)
			return
		}
	}
}

// cut shortens a text to at most n bytes of whole characters.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	const dots = "..."
	s = s[:n-len(dots)]
	for !utf8.ValidString(s) && s != "" {
		s = s[:len(s)-1]
	}
	return s + dots
}

// names lists some of many names.
func names(all []string, most int) string {
	if len(all) <= most {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(all[:most], ", "), len(all)-most)
}

// reporter tells about what is wrong with pods, each thing once for as long as
// the pod lives. It is safe for concurrent use.
type reporter struct {
	log    klog.Logger
	events *eventSender

	mu   sync.Mutex
	told map[types.UID]map[string]bool
}

// reportsPerPod bounds what one pod can make the plugin say, whatever is
// written into its annotations.
const reportsPerPod = 8

func newReporter(log klog.Logger, events *eventSender) *reporter {
	return &reporter{log: log, events: events, told: make(map[types.UID]map[string]bool)}
}

func (r *reporter) report(problems []problem) {
	for _, p := range problems {
		var uid types.UID
		if p.pod != nil {
			uid = p.pod.UID
		}
		if !r.first(uid, p.err.Error()) {
			continue
		}
		r.log.Error(p.err, "Ignored")
		if p.pod != nil {
			r.events.pod(p.pod, corev1.EventTypeWarning, eventAnnotationIgnored, p.err.Error())
		}
	}
}

func (r *reporter) first(uid types.UID, text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	told := r.told[uid]
	if told == nil {
		told = make(map[string]bool)
		r.told[uid] = told
	}
	if told[text] || len(told) >= reportsPerPod {
		return false
	}
	told[text] = true
	return true
}

// forget drops pods that are gone.
func (r *reporter) forget(live func(types.UID) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for uid := range r.told {
		if !live(uid) {
			delete(r.told, uid)
		}
	}
}
