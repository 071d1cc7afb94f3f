package cli

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox/seal"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/control"
)

// control carries out operations at the server that --server names, or on the database, as somebody who may
// do everything: whoever has the database's address does.
func (s *shell) control(ctx context.Context, actor string, do func(control.Caller) error) error {
	return s.controlWith(ctx, actor, nil, do)
}

// configuredControl is control with the configuration, where there is one, for what tells about it.
func (s *shell) configuredControl(ctx context.Context, do func(control.Caller) error) error {
	settings, err := s.servedConfig()
	if err != nil {
		settings = nil // what the database knows is shown without it
	}
	return s.controlWith(ctx, "", settings, do)
}

func (s *shell) controlWith(ctx context.Context, actor string, settings *config.Config, do func(control.Caller) error) error {
	if s.server != "" {
		client, err := s.client()
		if err != nil {
			return err
		}
		return do(client)
	}
	return s.withPool(ctx, fewConnections, func(pool *pgxpool.Pool, keys *seal.Keyring) error {
		service, err := control.NewService(control.Config{Pool: pool, Keyring: keys, Settings: settings, Version: readBuild().Version})
		if err != nil {
			return err
		}
		return do(&control.Local{Service: service, Access: control.Everything(actor)})
	})
}

// problemExit is the exit code for an operation that failed; ok is false for any other error.
func problemExit(err error) (code int, ok bool) {
	problem, ok := errors.AsType[*control.Problem](err)
	if !ok {
		return 0, false
	}
	switch problem.Code {
	case control.CodeInvalid, control.CodeAmbiguous, control.CodeTooLarge:
		return exitUsage, true
	case control.CodeUnavailable, control.CodeTimeout, control.CodeTooMany:
		return exitTryLater, true
	default:
		return exitFailed, true
	}
}
