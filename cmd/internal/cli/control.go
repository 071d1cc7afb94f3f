package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox/buffer"
	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/inbox/seal"
	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/control"
	"github.com/oncegate/oncegate/migrations"
)

// onDatabase configures how a command runs operations directly on the database. With --server it is
// not used.
type onDatabase struct {
	// actor is the name in the audit. It is empty for a command that only reads, because direct
	// reads of the database are not recorded.
	actor string

	// settings reads the configuration of the shell's database, for operations that need it. It may be nil.
	settings func(*shell) (*config.Config, error)

	// changes refuses the tables of another schema version, because this program may not know their
	// content. Set it for commands that change rows in bulk or permanently.
	changes bool

	// connections is the maximum number of connections. Zero means a few.
	connections int32

	// results has a comparison of a run ask the targets about its steps.
	results bool

	// progress shows the progress of a long operation.
	progress *progress
}

// control runs operations at the server that --server names, or directly on the database. Direct
// operations have all permissions, because anyone with the address of the database has them anyway.
func (s *shell) control(ctx context.Context, actor string, do func(control.Caller) error) error {
	return s.controlWith(ctx, onDatabase{actor: actor}, do)
}

// configuredControl is like control and also uses the configuration, if there is one.
func (s *shell) configuredControl(ctx context.Context, do func(control.Caller) error) error {
	return s.controlWith(ctx, onDatabase{settings: (*shell).optionalConfig}, do)
}

// optionalConfig returns the configuration of the server, or nil. Without it, commands show what
// the database contains.
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
		s.freshness = client.Freshness
		return do(client)
	}
	if names := s.databaseNames(); len(names) > 1 {
		return s.controlSeveral(ctx, on, names, do)
	}
	return s.withService(ctx, on, func(service *control.Service) error {
		return do(&control.Local{Service: service, Access: control.Everything(on.actor)})
	})
}

// controlSeveral runs operations on several databases. It reports and skips a database that does not answer.
func (s *shell) controlSeveral(ctx context.Context, on onDatabase, names []string, do func(control.Caller) error) error {
	var databases []control.Database
	homes := map[string]string{} // of the sources that are stored in a database
	whole, err := s.load()
	registered := sync.OnceValue(func() map[string]*app.Registered { return s.registered(ctx, whole, names) })
	home := func(source string) (string, []string) {
		at := homes[source]
		if at == "" && err == nil {
			at = whole.HomeOf(source)
		}
		if at == "" || err != nil {
			return at, nil
		}
		return app.Residence(at, []string{source}, registered())
	}
	var open func(rest []string) error
	var away error
	open = func(rest []string) error {
		if len(rest) == 0 {
			front := control.NewFront(databases, home)
			return do(&control.Local{Service: front, Access: control.Everything(on.actor)})
		}
		name := rest[0]
		opened := false
		err := s.of(name).withService(ctx, on, func(service *control.Service) error {
			opened = true
			databases = append(databases, control.Database{Name: name, Service: func() *control.Service { return service }})
			for _, source := range service.SourceNames() {
				homes[source] = name
			}
			return open(rest[1:])
		})
		if opened || !app.IsAway(err) {
			return err
		}
		if away = err; len(rest) == 1 && len(databases) == 0 {
			return away
		}
		fmt.Fprintf(s.err, "oncegate: the database %s does not answer, so its rows are missing\n", name)
		databases = append(databases, control.Database{Name: name, Service: func() *control.Service { return nil }})
		return open(rest[1:])
	}
	return open(names)
}

// withService calls do with a service on the shell's database.
func (s *shell) withService(ctx context.Context, on onDatabase, do func(*control.Service) error) error {
	var settings *config.Config
	if on.settings != nil {
		var err error
		if settings, err = on.settings(s); err != nil {
			return err
		}
	}
	return s.withPool(ctx, max(on.connections, fewConnections), func(pool *pgxpool.Pool, keys *seal.Keyring) error {
		if on.changes {
			if err := migrations.Validate(ctx, pool); err != nil {
				return err
			}
		}
		return s.withListPool(ctx, pool, func(lists, deciding *pgxpool.Pool) error {
			archive, err := s.archive(pool, keys)
			if err != nil {
				return err
			}
			service, err := control.NewService(control.Config{
				Pool: pool, Lists: lists, Deciding: deciding, Freshness: s.freshness, Keyring: keys, Archive: archive, Settings: settings, Logger: s.quietLogger(settings), Version: readBuild().Version, Patient: true, AskTargets: on.results, CheckDefinition: s.checkDefinition, Buffer: bufferOf(settings), Progress: on.progress.doing,
			})
			if err != nil {
				return err
			}
			defer service.Stop()
			return do(service)
		})
	})
}

// bufferOf returns a function that asks the servers of the configuration's buffer. settings may be nil.
func bufferOf(settings *config.Config) func(context.Context) *buffer.Status {
	if settings == nil {
		return nil
	}
	return func(ctx context.Context) *buffer.Status { return app.ReadBuffer(ctx, &settings.Buffer) }
}

// quietLogger returns a logger for errors only, because the command itself reports what happens.
func (s *shell) quietLogger(settings *config.Config) *slog.Logger {
	if settings == nil {
		return nil
	}
	quiet := settings.Log
	quiet.Level = max(quiet.Level, slog.LevelError)
	return newLogger(s, quiet)
}

// problemCode returns the code of a failed operation, whether it ran at a server or on the
// database.
func problemCode(err error) control.Code {
	if err == nil {
		return ""
	}
	return control.ProblemOf(err).Code
}

// refusedRequest turns the error of an invalid request into a usage error.
func refusedRequest(err error) error {
	if problemCode(err) == control.CodeInvalid {
		return refusef(operationCode(control.CodeInvalid), "%s", oneLine(err.Error()))
	}
	return err
}

// isOverloaded reports whether the error means that deliveries cannot be admitted now.
func isOverloaded(err error) bool {
	if problem, ok := errors.AsType[*control.Problem](err); ok {
		return problem.Code == control.CodeUnavailable
	}
	return errors.Is(err, gate.ErrOverloaded) || errors.Is(err, gate.ErrUnavailable)
}

// problemExit returns the exit code for an operation that failed with a code.
func problemExit(code control.Code) int {
	switch code {
	case control.CodeInvalid, control.CodeAmbiguous, control.CodeTooLarge:
		return exitUsage
	case control.CodeOutcomeUnknown:
		return exitUnknown
	case control.CodeUnavailable, control.CodeTimeout, control.CodeTooMany, control.CodeKeyInFlight:
		return exitTryLater
	default:
		return exitFailed
	}
}
