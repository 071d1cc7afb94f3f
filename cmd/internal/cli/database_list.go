package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/cmd/internal/errorcode"
	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/session"
)

// listPoolError is an error of the connection for lists, if that has its own address.
type listPoolError struct{ error }

// Unwrap returns the underlying error.
func (e *listPoolError) Unwrap() error { return e.error }

// openListPool opens the pool for reading lists.
func (s *shell) openListPool(ctx context.Context) (*pgxpool.Pool, error) {
	db, err := s.database()
	if err != nil {
		return nil, err
	}
	lists, err := app.OpenListPool(ctx, db, 1)
	if err != nil {
		return nil, errorf(errorcode.DatabaseAddress, "%v", err)
	}
	return lists, nil
}

// checkListPool checks the pool for lists, if that has its own address.
func (s *shell) checkListPool(ctx context.Context, primary, lists *pgxpool.Pool) error {
	if db, err := s.database(); err != nil || db.ListURL == "" {
		return err
	}
	if err := session.CheckListPool(ctx, primary, lists); err != nil {
		return &listPoolError{err}
	}
	return nil
}

// sayAge says at a terminal how old the data of a list is, if it was read from a standby.
func (s *shell) sayAge() {
	file, ok := s.err.(*os.File)
	if s.freshness == nil || !ok || !isTerminal(file) || s.output == "json" {
		return
	}
	now := time.Now()
	if f := s.freshness(); f.Standby && !f.AsOf.IsZero() {
		fmt.Fprintf(s.err, "oncegate: data of %s, %s old: the lists are read from a standby\n", clock(f.AsOf), f.Age(now).Round(time.Second))
	}
}

// withListPool calls do with the pool for lists, and with one like it that reads the primary. It returns an error if that leads to another
// database than primary. Any other error of that pool only affects operations that read lists,
// which report it themselves.
func (s *shell) withListPool(ctx context.Context, primary *pgxpool.Pool, do func(lists, deciding *pgxpool.Pool) error) error {
	db, err := s.database()
	if err != nil {
		return err
	}
	lists, err := s.openListPool(ctx)
	if err != nil {
		return err
	}
	defer lists.Close()
	deciding := lists
	if db.ListURL != "" {
		if deciding, err = session.OpenPool(ctx, db.URL, db.Schema, session.PoolList, 1); err != nil {
			return errorf(errorcode.DatabaseAddress, "%v", err)
		}
		defer deciding.Close()
	}
	wrong := s.checkListPool(ctx, primary, lists)
	if errors.Is(wrong, session.ErrOtherDatabase) {
		return wrong
	}
	if db.ListURL != "" && wrong == nil {
		fresh := session.NewDataAge(primary, lists, time.Now).Measure(ctx) // before the list is read, which is then at least as new
		s.freshness = func() session.Freshness { return fresh }
	}
	err = do(lists, deciding)
	var connect *pgconn.ConnectError
	if wrong != nil && errors.As(wrong, &connect) && errors.As(err, &connect) {
		return &listPoolError{err}
	}
	return err
}
