package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"

	"github.com/oncegate/oncegate/inbox/receiver"
)

// listeners are the sockets and the servers of a process that listens. The first App of the process opens them. An App
// with [Parts.After] takes them over, so that no connection ends because the configuration changes. Every request is
// served by the App that leads when the request arrives.
type listeners struct {
	public, admin         *http.Server // public is nil without the role receive
	publicAddr, adminAddr net.Addr
	connections           *receiver.Connections // of the public listener
	failed                chan error

	lead atomic.Pointer[App]
}

// newListeners makes the listeners that the first App of a process opens in Start.
func newListeners(first *App) *listeners {
	l := &listeners{admin: first.private.NewServer(), failed: first.failed}
	l.admin.Handler = l.handler(func(a *App) *door { return a.adminDoor })
	l.lead.Store(first)
	return l
}

// handler serves each request with the door of the App that leads.
func (l *listeners) handler(doorOf func(*App) *door) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { admitLead(w, r, l.lead.Load, doorOf) })
}

// open binds an address. The socket is closed when the App that leads then stops.
func (l *listeners) open(ctx context.Context, a *App, name, address string, bound *net.Addr) (net.Listener, error) {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening on the %s address %s: %w", name, address, err)
	}
	// Closing twice is harmless: the server closes the listener too, once it serves.
	a.cleanups.add(name+" socket", func(context.Context) error {
		if l.lead.Load() == a {
			_ = listener.Close()
		}
		return nil
	})
	*bound = listener.Addr()
	return listener, nil
}

// serve answers on the listener until the server is shut down.
func (l *listeners) serve(name string, server *http.Server, listener net.Listener) {
	go func() {
		if err := server.Serve(listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
			l.failed <- fmt.Errorf("%s: %w", name, err)
		}
	}()
}

// end shuts a server down if a leads, and waits until a has answered all requests that it let in.
func (l *listeners) end(ctx context.Context, a *App, server *http.Server, in *door) error {
	if l.lead.Load() != a {
		return in.shut(ctx)
	}
	if err := server.Shutdown(ctx); err != nil {
		_ = server.Close()
		return err
	}
	return in.shut(ctx)
}

// startAdmin lets requests of the private listener in, and opens both listeners if no App has opened them yet. The
// function that it returns lets deliveries in.
func (a *App) startAdmin(ctx context.Context) (startPublic func(), err error) {
	l := a.listeners
	var adminListener, publicListener net.Listener
	if a.parts.After == nil {
		if adminListener, err = l.open(ctx, a, "admin", a.settings.Listen.Admin, &l.adminAddr); err != nil {
			return nil, err
		}
		if l.public != nil {
			if publicListener, err = l.open(ctx, a, "public", a.settings.Listen.Public, &l.publicAddr); err != nil {
				return nil, err
			}
		}
	}
	a.adminDoor.open(a.private.Handler())
	a.cleanups.add("admin listener", func(ctx context.Context) error { return l.end(ctx, a, l.admin, a.adminDoor) })
	if adminListener != nil {
		l.serve("admin listener", l.admin, adminListener)
	}
	return func() {
		if a.receiver == nil {
			return
		}
		a.door.open(a.within(a.leaving(a.receiver)))
		a.cleanups.add("public listener", func(ctx context.Context) error { return l.end(ctx, a, l.public, a.door) })
		if publicListener != nil {
			l.serve("public listener", l.public, l.connections.Listen(publicListener))
		}
	}, nil
}

// within extends a request's write deadline to the time that this configuration needs, because the server may have been started with another one.
func (a *App) within(next http.Handler) http.Handler {
	limit := a.writeTimeout()
	if limit == a.listeners.public.WriteTimeout {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// It fails only if the connection has no deadlines, and then there is none to move.
		_ = http.NewResponseController(w).SetWriteDeadline(a.cfg.Now().Add(limit))
		next.ServeHTTP(w, r)
	})
}

// PublicAddr returns the address at which deliveries are accepted, once started. It is nil without
// the role.
func (a *App) PublicAddr() net.Addr {
	if a.listeners == nil {
		return nil
	}
	return a.listeners.publicAddr
}

// AdminAddr returns the address at which health and metrics are served, once started.
func (a *App) AdminAddr() net.Addr {
	if a.listeners == nil {
		return nil
	}
	return a.listeners.adminAddr
}
