package inspect

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/Project-HAMi/hami-amd/annotations"
)

// verify fills in the problems. Pods come first: what is wrong with a mask
// decides whether it counts on its GPU.
func (c *Cluster) verify() {
	for _, p := range c.Pods {
		if !p.Finished {
			c.verifyPod(p)
		}
	}
	owners := c.lockOwners()
	registered := map[string]string{} // the first node of each id
	for _, n := range c.Nodes {
		c.verifyNode(n)
		c.verifyLock(n, owners)
		for _, g := range n.GPUs {
			if other, again := registered[g.Device.ID]; again {
				g.report(DuplicateDevice, "node %s registers it too", short(other))
			} else {
				registered[g.Device.ID] = n.Name
			}
			c.verifyGPU(g)
		}
		c.verifyKubeletIDs(n)
	}
}

// lockOwners finds pods by "namespace/name", all of them: the lock is all
// vendors'. It is nil where no pods were given, and then nobody knows.
func (c *Cluster) lockOwners() map[string]*corev1.Pod {
	if c.allPods == nil {
		return nil
	}
	wanted := map[string]*corev1.Pod{}
	for _, n := range c.Nodes {
		if n.Lock != nil {
			wanted[n.Lock.Namespace+"/"+n.Lock.Name] = nil
		}
	}
	if len(wanted) == 0 {
		return wanted
	}
	for _, pod := range c.allPods {
		if pod == nil {
			continue
		}
		if _, ok := wanted[pod.Namespace+"/"+pod.Name]; ok {
			wanted[pod.Namespace+"/"+pod.Name] = pod
		}
	}
	return wanted
}

func (c *Cluster) verifyLock(n *Node, owners map[string]*corev1.Pod) {
	if n.lockErr != nil {
		n.report(LockMalformed, "%v", n.lockErr)
	}
	if n.Lock == nil {
		return
	}
	age := c.read.Now.Sub(n.Lock.Time).Abs()
	old := age.Round(time.Second)
	if n.Lock.Legacy() {
		if age > c.read.LockTimeout {
			n.report(LockWithoutOwner, "the lock names no owner and is %v old", old)
		}
		return
	}
	if owners == nil || age <= c.read.Grace {
		return
	}
	owner := owners[n.Lock.Namespace+"/"+n.Lock.Name]
	state := annotations.OwnerGone
	if owner != nil {
		state = annotations.OwnerStateOf(string(owner.Status.Phase), owner.Annotations)
	}
	name := short(n.Lock.Namespace + "/" + n.Lock.Name)
	switch {
	case state == annotations.OwnerGone:
		n.report(LockOwnerGone, "the lock is %v old and its owner %s is gone", old, name)
	case state == annotations.OwnerFinished:
		n.report(LockOwnerFinished, "the lock is %v old and its owner %s has finished", old, name)
	case owner.Spec.NodeName != "" && owner.Spec.NodeName != n.Name:
		n.report(LockOwnerElsewhere, "the lock is %v old and its owner %s is bound to node %s", old, name, short(owner.Spec.NodeName))
	case state == annotations.OwnerServed:
		n.report(LockLeft, "the lock is %v old and its owner %s waits for no device", old, name)
	case age > c.read.LockTimeout:
		n.report(LockStuck, "the lock is %v old and its owner %s still waits for its devices", old, name)
		last := &n.Problems[len(n.Problems)-1]
		last.Remedy = fill(last.Code.remedy(), Problem{Node: n.Name, Namespace: n.Lock.Namespace, Pod: n.Lock.Name})
	}
}
