package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
)

func (a *App) listen(ctx context.Context, name, address string, bound *net.Addr) (net.Listener, error) {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening on the %s address %s: %w", name, address, err)
	}
	// Closing twice is harmless: the server closes the listener too, once it serves.
	a.cleanups.add(name+" socket", func(context.Context) error { _ = listener.Close(); return nil })
	*bound = listener.Addr()
	return listener, nil
}

// serve answers on the listener until the server is shut down.
func (a *App) serve(name string, server *http.Server, listener net.Listener) {
	a.cleanups.add(name, func(ctx context.Context) error {
		if err := server.Shutdown(ctx); err != nil {
			_ = server.Close()
			return err
		}
		return nil
	})
	go func() {
		if err := server.Serve(listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
			a.failed <- fmt.Errorf("%s: %w", name, err)
		}
	}()
}

// PublicAddr returns the address at which deliveries are accepted, once started. It is nil without
// the role.
func (a *App) PublicAddr() net.Addr { return a.publicAddr }

// AdminAddr returns the address at which health and metrics are served, once started.
func (a *App) AdminAddr() net.Addr { return a.adminAddr }
