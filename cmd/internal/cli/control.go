package cli

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox/seal"
	"github.com/oncegate/oncegate/internal/control"
)

// control carries out operations on the database, as somebody who may do everything: whoever has the
// database's address does.
func (s *shell) control(ctx context.Context, actor string, do func(control.Caller) error) error {
	return s.withPool(ctx, fewConnections, func(pool *pgxpool.Pool, keys *seal.Keyring) error {
		service, err := control.NewService(control.Config{Pool: pool, Keyring: keys})
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
	}
	return exitFailed, true
}
