package kills

import "sync"

// targetAct is what a target does with a request instead of answering it.
type targetAct string

const (
	holdUnread  targetAct = "hold it unread"
	holdRead    targetAct = "hold it when it was read"
	holdAnswer  targetAct = "hold it in the middle of its answer"
	resetUnread targetAct = "reset the connection before it is read"
	resetRead   targetAct = "reset the connection when it was read"
	answerBusy  targetAct = "answer 503 when it was read"
	resetReused targetAct = "reset a connection kept alive when the next request was read"
)

// heldRequest is a request that a target keeps until the campaign has done something to its worker.
type heldRequest struct {
	slot  int
	route Route
	event string // "" if it was not read

	// release lets the target continue: true answers the request, false closes the connection.
	release chan bool
}

// script says what the targets do next. Each entry is used once.
type script struct {
	heldRequests chan *heldRequest // one at a time
	finishedActs chan targetAct    // acts that need no release
	closed       chan struct{}     // closed when the campaign ends

	mu   sync.Mutex
	acts map[string]targetAct // by what they wait for
}

// anyReused is what [resetReused] waits for: a request on a connection that was kept alive.
const anyReused = "reused"

// anyOf is what an act waits for that strikes a request before it is read: the next one of a route. Other acts wait for
// the first request of an event.
func anyOf(r Route) string { return "next of " + string(r) }

func newScript() *script {
	return &script{heldRequests: make(chan *heldRequest), closed: make(chan struct{}), finishedActs: make(chan targetAct, 16), acts: map[string]targetAct{}}
}

// on has the targets act once on the request that the act waits for.
func (s *script) on(request string, a targetAct) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acts[request] = a
}

func (s *script) take(request string) targetAct {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.acts[request]
	delete(s.acts, request)
	return a
}

// hold hands the request to the campaign and waits. It reports whether the target is to answer it.
func (s *script) hold(slot int, route Route, event string) (answer bool) {
	h := &heldRequest{slot: slot, route: route, event: event, release: make(chan bool, 1)}
	select {
	case s.heldRequests <- h:
	case <-s.closed:
		return false
	}
	select {
	case answer = <-h.release:
		return answer
	case <-s.closed:
		return false
	}
}
