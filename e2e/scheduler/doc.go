// Package scheduler does to pods what HAMi's scheduler does, against a real API
// server and with the decisions of package amd: the webhook at creation, the
// filter that chooses node and devices and writes them on the pod, and the bind
// that takes the node lock.
//
//	s, err := scheduler.New(client, scheduler.Options{})
//	pod, err = s.Schedule(ctx, pod) // created, placed and bound
//
// It keeps no state: each decision starts from what the API server says. The
// writes, their order and what they are guarded by are those of HAMi v2.10.
// Not there are its informers, events, quotas and the kube-scheduler around it.
package scheduler
