package app

import (
	"context"
	"net/http"
	"sync"
)

// door lets requests in until it is shut, and knows how many are inside. A program that has its own listener meets a shut
// door with 503, so that senders deliver again.
type door struct {
	mu       sync.Mutex
	receiver http.Handler  // nil while the door is shut
	inside   int           // requests under way
	empty    chan struct{} // closed when the last of them has left after the door was shut
}

func newDoor() *door { return &door{} }

// open lets requests in.
func (d *door) open(receiver http.Handler) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.receiver = receiver
}

// shut refuses further requests and waits for those under way, but not longer than ctx.
func (d *door) shut(ctx context.Context) error {
	d.mu.Lock()
	d.receiver = nil
	if d.inside == 0 {
		d.mu.Unlock()
		return nil
	}
	d.empty = make(chan struct{})
	empty := d.empty
	d.mu.Unlock()
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (d *door) enter() http.Handler {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.receiver != nil {
		d.inside++
	}
	return d.receiver
}

func (d *door) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.inside--; d.inside == 0 && d.empty != nil {
		close(d.empty)
		d.empty = nil
	}
}

// afterShut is when a sender that met a shut door may deliver again, in seconds, as after any other
// fault of ours.
const afterShut = "5"

// ServeHTTP implements [http.Handler].
func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !d.admit(w, r) {
		refuse(w, r)
	}
}

// admit serves a request. It reports false, and writes nothing, if the door is shut.
func (d *door) admit(w http.ResponseWriter, r *http.Request) bool {
	receiver := d.enter()
	if receiver == nil {
		return false
	}
	defer d.leave()
	receiver.ServeHTTP(w, r)
	return true
}

// refuse answers 503.
func refuse(w http.ResponseWriter, r *http.Request) {
	// The body is not read, so a connection of HTTP/1 cannot be used again.
	if r.ProtoMajor < 2 {
		w.Header().Set("Connection", "close")
	}
	w.Header().Set("Retry-After", afterShut)
	w.WriteHeader(http.StatusServiceUnavailable)
}

// Deliveries returns the handler of deliveries at /in/<source>. From Start to Stop it accepts them
// if this process has the role and does not listen itself. Otherwise it answers 503.
func (a *App) Deliveries() http.Handler { return a.door }

// Deliver serves a delivery by the App that leads, of a process whose Apps do not listen themselves.
func Deliver(w http.ResponseWriter, r *http.Request, lead func() *App) {
	admitLead(w, r, lead, func(a *App) *door { return a.door })
}

// admitLead serves a request with the door of the App that leads. An App may lose the lead and shut its door while a request looks for
// it, so the request then goes to the next one.
func admitLead(w http.ResponseWriter, r *http.Request, lead func() *App, doorOf func(*App) *door) {
	for {
		leads := lead()
		if doorOf(leads).admit(w, r) {
			return
		}
		if lead() == leads {
			refuse(w, r)
			return
		}
	}
}

// Refuse answers 503, so that the sender delivers again.
func Refuse(w http.ResponseWriter, r *http.Request) { refuse(w, r) }

// Admin returns the handler of /healthz, /readyz, /metrics and everything that is mounted.
func (a *App) Admin() http.Handler { return a.private.Handler() }
