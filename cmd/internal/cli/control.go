package cli

import (
	"context"
	"errors"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/inbox/seal"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/control"
	"github.com/oncegate/oncegate/migrations"
)

// onDatabase says how a command carries out operations on the database itself. A server knows all of it.
type onDatabase struct {
	// actor is the name in the audit. It is empty for a command that only reads: on the database itself, reading is not recorded.
	actor string

	// settings read the configuration, for what needs more than the database; nil for what does not.
	settings func() (*config.Config, error)

	// changes refuses the tables of another version, of which this one may not know what they hold: for what changes rows in
	// bulk or for good.
	changes bool

	// connections are how many are opened at most; 0 is a few.
	connections int32

	// progress is told how far a long operation is.
	progress *progress
}

// control carries out operations at the server that --server names, or on the database, as somebody who may
// do everything: whoever has the database's address does.
func (s *shell) control(ctx context.Context, actor string, do func(control.Caller) error) error {
	return s.controlWith(ctx, onDatabase{actor: actor}, do)
}

// configuredControl is control with the configuration, where there is one, for what tells about it.
func (s *shell) configuredControl(ctx context.Context, do func(control.Caller) error) error {
	return s.controlWith(ctx, onDatabase{settings: s.optionalConfig}, do)
}

// optionalConfig is the configuration that is served, or none: what the database knows is shown without it.
func (s *shell) optionalConfig() (*config.Config, error) {
	settings, err := s.servedConfig()
	if err != nil {
		return nil, nil //nolint:nilnil,nilerr // see above
	}
	return settings, nil
}

func (s *shell) controlWith(ctx context.Context, on onDatabase, do func(control.Caller) error) error {
	if s.server != "" {
		client, err := s.client()
		if err != nil {
			return err
		}
		return do(client)
	}
	var settings *config.Config
	if on.settings != nil {
		var err error
		if settings, err = on.settings(); err != nil {
			return err
		}
	}
	return s.withPool(ctx, max(on.connections, fewConnections), func(pool *pgxpool.Pool, keys *seal.Keyring) error {
		if on.changes {
			if err := migrations.Validate(ctx, pool); err != nil {
				return err
			}
		}
		return s.withListPool(ctx, pool, func(lists *pgxpool.Pool) error {
			service, err := control.NewService(control.Config{
				Pool: pool, Lists: lists, Keyring: keys, Settings: settings, Logger: s.quietLogger(settings), Version: readBuild().Version, Patient: true, Progress: on.progress.doing,
			})
			if err != nil {
				return err
			}
			defer service.Stop()
			return do(&control.Local{Service: service, Access: control.Everything(on.actor)})
		})
	})
}

// quietLogger writes what goes wrong, and not what happens: the command says that itself.
func (s *shell) quietLogger(settings *config.Config) *slog.Logger {
	if settings == nil {
		return nil
	}
	quiet := settings.Log
	quiet.Level = max(quiet.Level, slog.LevelError)
	return newLogger(s, quiet)
}

// problemCode says why an operation failed, wherever it was carried out.
func problemCode(err error) control.Code {
	if err == nil {
		return ""
	}
	return control.ProblemOf(err).Code
}

// refusedRequest makes a mistake in what was typed of a request that cannot be carried out as it is.
func refusedRequest(err error) error {
	if problemCode(err) == control.CodeInvalid {
		return usagef("%s", oneLine(err.Error()))
	}
	return err
}

// isOverloaded reports whether deliveries cannot be admitted now.
func isOverloaded(err error) bool {
	if problem, ok := errors.AsType[*control.Problem](err); ok {
		return problem.Code == control.CodeUnavailable
	}
	return errors.Is(err, gate.ErrOverloaded) || errors.Is(err, gate.ErrUnavailable)
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
	case control.CodeOutcomeUnknown:
		return exitUnknown, true
	case control.CodeUnavailable, control.CodeTimeout, control.CodeTooMany, control.CodeKeyInFlight:
		return exitTryLater, true
	default:
		return exitFailed, true
	}
}
