package row

import (
	"errors"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncegate/oncegate/internal/session"
)

// PublicErrorText is an error in a text that names neither address nor user.
func PublicErrorText(err error) string {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return ErrorText(pg)
	}
	if errors.Is(err, session.ErrShared) {
		return session.ErrShared.Error()
	}
	if setting, ok := errors.AsType[*session.SettingError](err); ok {
		return setting.Error()
	}
	return "it does not answer"
}

// ErrorText is the error without PostgreSQL's DETAIL, which quotes rows.
func ErrorText(err error) string {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return "PostgreSQL " + pg.Code + " " + pg.Message
	}
	return err.Error()
}
