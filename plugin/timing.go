package plugin

import "time"

// timing is how long things may take, and how often they are done.
type timing struct {
	// Kubelet sets no deadline for Allocate and admits no other pod meanwhile,
	// so the plugin keeps one: answer is for everything up to the answer, and
	// cleanup after it for telling the API server. Together they stay below
	// 20 s.
	answer, cleanup time.Duration
	// request bounds one request, so that an API server which hangs leaves time
	// to ask again.
	request time.Duration
	// pending bounds GetPreferredAllocation, which is only advice.
	pending time.Duration
	// keep is how long what was read for GetPreferredAllocation serves the
	// Allocate that follows; kubelet makes the two calls back to back.
	keep time.Duration
	// doubt is how long to wait for the API server to hear of a pod's end that
	// kubelet may know of already.
	doubt time.Duration
	// The node is looked at each publish, as HAMi's plugins do it, and after an
	// error sooner. A lock that somebody holds is looked at sooner as well,
	// because its owner may have failed in a way only kubelet knows of.
	publish, publishRetry, publishLocked time.Duration
}

func defaultTiming() timing {
	return timing{
		answer: 14 * time.Second, cleanup: 5 * time.Second,
		request: 4 * time.Second, pending: 5 * time.Second,
		keep: 5 * time.Second, doubt: 3 * time.Second,
		publish: 30 * time.Second, publishRetry: 5 * time.Second, publishLocked: 5 * time.Second,
	}
}
