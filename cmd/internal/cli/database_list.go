package cli

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/session"
)

// listPoolError is what went wrong over the connection that lists are read by, where that has an address of its own.
type listPoolError struct{ error }

// Unwrap gives what went wrong.
func (e *listPoolError) Unwrap() error { return e.error }

// openListPool opens what lists are read by.
func (s *shell) openListPool(ctx context.Context) (*pgxpool.Pool, error) {
	db, err := s.database()
	if err != nil {
		return nil, err
	}
	lists, err := app.OpenListPool(ctx, db, 1)
	if err != nil {
		return nil, usagef("%v", err)
	}
	return lists, nil
}

// checkListPool says what is wrong with what lists are read by, where that has an address of its own.
func (s *shell) checkListPool(ctx context.Context, primary, lists *pgxpool.Pool) error {
	if db, err := s.database(); err != nil || db.ListURL == "" {
		return err
	}
	if err := session.CheckListPool(ctx, primary, lists); err != nil {
		return &listPoolError{err}
	}
	return nil
}

// withListPool does something with what lists are read by. Another database than primary is refused; anything else that is
// wrong with it concerns only what reads lists, and that says so itself.
func (s *shell) withListPool(ctx context.Context, primary *pgxpool.Pool, do func(*pgxpool.Pool) error) error {
	lists, err := s.openListPool(ctx)
	if err != nil {
		return err
	}
	defer lists.Close()
	wrong := s.checkListPool(ctx, primary, lists)
	if errors.Is(wrong, session.ErrOtherDatabase) {
		return wrong
	}
	err = do(lists)
	var connect *pgconn.ConnectError
	if wrong != nil && errors.As(wrong, &connect) && errors.As(err, &connect) {
		return &listPoolError{err}
	}
	return err
}
