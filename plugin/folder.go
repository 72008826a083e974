package plugin

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"k8s.io/klog/v2"
)

// socketFolder wakes those who care for the sockets in kubelet's
// device-plugins folder. A kubelet that starts removes all sockets there, also
// those of live plugins, and makes its own anew. A wake-up says "look again",
// nothing more: whoever is woken compares the files with what it knows.
type socketFolder struct {
	dir string
	log klog.Logger
	// poll is how often everybody is woken without a sign, for changes that
	// inotify does not show: the folder itself was replaced, or the user's
	// inotify limits are used up.
	poll time.Duration

	mu      sync.Mutex
	wakeups map[chan struct{}]bool
}

// wake returns a channel that gets a value after something may have changed,
// and a function that ends that.
func (f *socketFolder) wake() (<-chan struct{}, func()) {
	ch := make(chan struct{}, 1)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.wakeups == nil {
		f.wakeups = make(map[chan struct{}]bool)
	}
	f.wakeups[ch] = true
	return ch, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.wakeups, ch)
	}
}

func (f *socketFolder) wakeAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for ch := range f.wakeups {
		notify(ch)
	}
}

// notify leaves a value in a channel of capacity 1 that nobody may be reading.
func notify(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// run watches until ctx ends. Without inotify it polls.
func (f *socketFolder) run(ctx context.Context) {
	tick := time.NewTicker(f.poll)
	defer tick.Stop()
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		f.log.Error(err, "No inotify: a restart of kubelet is noticed late", "poll", f.poll)
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				f.wakeAll()
			}
		}
	}
	defer watcher.Close()
	missing := false
	add := func() {
		// Adding it again is how a folder that was replaced is found.
		err := watcher.Add(f.dir)
		if err != nil && !missing {
			f.log.Error(err, "Watching kubelet's folder failed, trying again", "folder", f.dir)
		}
		missing = err != nil
	}
	add()
	for {
		select {
		case <-ctx.Done():
			return
		case e, ok := <-watcher.Events:
			if !ok {
				return
			}
			// Kubelet's checkpoint in the same folder is none of our business.
			if strings.HasSuffix(e.Name, ".sock") && !e.Has(fsnotify.Write) {
				f.wakeAll()
			} else if filepath.Clean(e.Name) == filepath.Clean(f.dir) {
				add()
				f.wakeAll()
			}
		case err, ok := <-watcher.Errors:
			if !ok {
				return
			}
			f.log.V(4).Info("Watching kubelet's folder: " + err.Error()) // an overflow of the queue
			f.wakeAll()
		case <-tick.C:
			add()
			f.wakeAll()
		}
	}
}
