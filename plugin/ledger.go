package plugin

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/Project-HAMi/hami-amd/annotations"
	"github.com/Project-HAMi/hami-amd/cumask"
)

// record is what one pod was handed out. It is never changed once it is in a
// ledger.
type record struct {
	namespace, name string
	// grants is hami.io/amd-devices-allocated as it was served.
	grants string
	// cus is all that the pod holds, by device ID, from its first container on;
	// containers is the part of each container served so far, nil where that
	// is not known.
	cus        map[string]cumask.Set
	containers map[string]annotations.ContainerCUs

	mark uint64 // of the ledger when it came in
}

// annotations returns the values of hami.io/amd-cu-allocated and
// hami.io/amd-cu-containers.
func (r *record) annotations() (cus, containers string, err error) {
	if cus, err = annotations.EncodeCUs(r.cus); err != nil {
		return "", "", err
	}
	if containers, err = annotations.EncodeContainerCUs(r.containers); err != nil {
		return "", "", err
	}
	return cus, containers, nil
}

// in tells whether a pod's annotations say what the record says.
func (r *record) in(a map[string]string) bool {
	cus, err := annotations.DecodeCUs(a[annotations.CUAllocatedKey])
	if err != nil || !maps.Equal(cus, r.cus) {
		return false
	}
	if r.containers == nil {
		return true
	}
	containers, err := annotations.DecodeContainerCUs(a[annotations.CUContainersKey])
	return err == nil && maps.EqualFunc(containers, r.containers, func(a, b annotations.ContainerCUs) bool {
		return slices.Equal(a.IDs, b.IDs) && maps.Equal(a.CUs, b.CUs)
	})
}

// holder is the pod's name in messages and in an occupancy.
func (r *record) holder() string { return r.namespace + "/" + r.name }

// ledger is what this node has handed out, in memory and in a file. It is
// believed before any annotation, because anyone who may edit a pod can write
// those. It is safe for concurrent use.
type ledger struct {
	mu    sync.Mutex
	file  *stateFile
	pods  map[types.UID]*record
	marks uint64
}

// openLedger reads what was handed out before from the file. A file that
// cannot be understood is set aside and reported in broken; the ledger then
// starts empty.
func openLedger(hostPath string) (l *ledger, broken, err error) {
	file, err := openStateFile(hostPath)
	if err != nil {
		return nil, nil, err
	}
	pods, broken, err := file.read()
	if err != nil {
		file.close()
		return nil, nil, err
	}
	if pods == nil {
		pods = make(map[types.UID]*record)
	}
	return &ledger{file: file, pods: pods}, broken, nil
}

func (l *ledger) close() { l.file.close() }

// now is a mark: what comes in later has a higher one. A list of pods that was
// asked for at some mark says nothing about pods recorded after it.
func (l *ledger) now() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.marks
}

func (l *ledger) get(uid types.UID) *record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pods[uid]
}

// all returns the records as they are now.
func (l *ledger) all() map[types.UID]*record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.pods)
}

// put records what a pod is about to be handed, nil to take it back, and
// returns once that is on disk. After an error nothing has changed.
func (l *ledger) put(uid types.UID, r *record) error {
	return l.update(map[types.UID]*record{uid: r})
}

// update is put for several pods at once.
func (l *ledger) update(changes map[types.UID]*record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := maps.Clone(l.pods)
	marks := l.marks
	for uid, r := range changes {
		if r == nil {
			delete(next, uid)
			continue
		}
		c := *r
		marks++
		c.mark = marks
		next[uid] = &c
	}
	if err := l.file.write(next); err != nil {
		return err
	}
	l.pods, l.marks = next, marks
	return nil
}

// restore puts a record back that a later one took the place of, nil if there
// was none, whatever the disk says: it then remembers too much, which only
// costs CUs until the pod is gone.
func (l *ledger) restore(uid types.UID, r *record) error {
	err := l.put(uid, r)
	if err == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if r == nil {
		delete(l.pods, uid)
	} else {
		l.pods[uid] = r
	}
	return fmt.Errorf("pod stays in %s until it is gone: %w", stateName, err)
}

// forget drops the records of pods that are gone.
func (l *ledger) forget(uids ...types.UID) error {
	l.mu.Lock()
	gone := make(map[types.UID]*record)
	for _, uid := range uids {
		if _, ok := l.pods[uid]; ok {
			gone[uid] = nil
		}
	}
	l.mu.Unlock()
	if len(gone) == 0 {
		return nil
	}
	return l.update(gone)
}

// find returns the containers that were handed exactly these device IDs, in
// any order, of the pods that live accepts.
func (l *ledger) find(ids []string, live func(types.UID) bool) (found []recordedContainer) {
	want := slices.Sorted(slices.Values(ids))
	l.mu.Lock()
	defer l.mu.Unlock()
	for uid, r := range l.pods {
		if !live(uid) {
			continue
		}
		for name, c := range r.containers {
			if len(c.IDs) == len(want) && slices.Equal(slices.Sorted(slices.Values(c.IDs)), want) {
				found = append(found, recordedContainer{uid: uid, name: name})
			}
		}
	}
	slices.SortFunc(found, func(a, b recordedContainer) int {
		return cmp.Or(cmp.Compare(a.uid, b.uid), cmp.Compare(a.name, b.name))
	})
	return found
}

// served lists the containers of all records with their device IDs.
func (l *ledger) served() (served []servedContainer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for uid, r := range l.pods {
		for _, c := range r.containers {
			served = append(served, servedContainer{pod: uid, ids: c.IDs})
		}
	}
	return served
}

// recordedContainer names a container of the ledger.
type recordedContainer struct {
	uid  types.UID
	name string
}
