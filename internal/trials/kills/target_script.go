package kills

import "sync"

// act is what a target does with a request instead of answering it.
type act string

const (
	holdUnread  act = "hold it unread"
	holdRead    act = "hold it when it was read"
	holdAnswer  act = "hold it in the middle of its answer"
	resetUnread act = "reset the connection before it is read"
	resetRead   act = "reset the connection when it was read"
	answerBusy  act = "answer 503 when it was read"
	resetReused act = "reset a connection kept alive when the next request was read"
)

// held is a request that a target holds until the campaign has done what it
// wants with the worker.
type held struct {
	seat  int
	route Route
	event string // "" if it was not read

	// release lets the target go on: to answer after all, or to hang up.
	release chan bool
}

// script is what the targets are to do next. Each line of it is acted out once.
type script struct {
	held chan *held    // one at a time
	done chan act      // what needs nobody's help
	over chan struct{} // closed when nobody holds anything any more

	mu      sync.Mutex
	unread  map[Route]act  // the next request of a route
	reused  bool           // the next on a connection kept alive
	byEvent map[string]act // the first request of an event
}

func newScript() *script {
	return &script{held: make(chan *held), over: make(chan struct{}), done: make(chan act, 16), unread: map[Route]act{}, byEvent: map[string]act{}}
}

func (s *script) onEvent(event string, a act) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byEvent[event] = a
}

func (s *script) onNext(r Route, a act) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unread[r] = a
}

func (s *script) onReused() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reused = true
}

func (s *script) takeEvent(event string) act {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.byEvent[event]
	delete(s.byEvent, event)
	return a
}

func (s *script) takeNext(r Route) act {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.unread[r]
	delete(s.unread, r)
	return a
}

func (s *script) takeReused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.reused
	s.reused = false
	return taken
}

// hold gives the request to the campaign and reports whether to answer it.
func (s *script) hold(seat int, route Route, event string) (answer bool) {
	h := &held{seat: seat, route: route, event: event, release: make(chan bool, 1)}
	select {
	case s.held <- h:
	case <-s.over:
		return false
	}
	select {
	case answer = <-h.release:
		return answer
	case <-s.over:
		return false
	}
}
