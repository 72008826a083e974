package plugin

import "time"

// endStreams ends the ListAndWatch streams that are left from an earlier
// registration, so that the next one has a stream of its own. It reports false
// if one does not end because kubelet does not read.
func (s *server) endStreams() bool {
	s.mu.Lock()
	idle := s.idle
	close(s.cut)
	s.mu.Unlock()
	ended := true
	if idle != nil {
		timer := time.NewTimer(s.times.register)
		defer timer.Stop()
		select {
		case <-idle:
		case <-timer.C:
			ended = false
		}
	}
	s.mu.Lock()
	s.cut = make(chan struct{})
	s.mu.Unlock()
	s.forgetEnded()
	return ended
}

// forgetEnded drops a sign of streams that ended on our own account.
func (s *server) forgetEnded() {
	select {
	case <-s.ended:
	default:
	}
}

// streamBegins counts a ListAndWatch stream in. The channel is closed when it
// has to end.
func (s *server) streamBegins() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams++; s.streams == 1 {
		s.idle = make(chan struct{})
	}
	return s.cut
}

func (s *server) streamEnds() {
	notify(s.ended)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams--; s.streams == 0 {
		close(s.idle)
		s.idle = nil
	}
}
