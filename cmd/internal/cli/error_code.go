package cli

import (
	"errors"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncegate/oncegate/cmd/internal/errorcode"
	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/registry"
	"github.com/oncegate/oncegate/internal/api"
	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/control"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/migrations"
)

// class recognizes the errors of other packages that have a code.
type class struct {
	code errorcode.Code
	is   func(error) bool
}

// classes lists the classes. The first that recognizes an error determines its code.
var classes = []class{
	{errorcode.Config, isA[config.Problems]},
	{errorcode.DatabaseSetting, isA[*session.SettingError]},
	{errorcode.SharedSessions, is(session.ErrShared)},
	{errorcode.Names, is(registry.ErrNames, registry.ErrRecipe)},
	{operationCode(control.CodeAmbiguous), is(read.ErrAmbiguousReference)},
	{operationCode(control.CodeInvalid), is(read.ErrReference, read.ErrCursor, read.ErrStreamReference, inbox.ErrUnexplained)},
	{errorcode.DatabaseAddress, is(session.ErrSchemaName)},
	{errorcode.SchemaVersion, is(migrations.ErrSchema)},
	{errorcode.TablesMissing, noTables},
	{errorcode.LockTimeout, isA[*app.LockError]},
	{errorcode.LockTimeout, lockedOut},
	{errorcode.DatabaseStandby, is(inbox.ErrStandby)},
	{errorcode.ServerUnreachable, func(err error) bool { return api.IsNoAnswer(err) && unreachable(err) }},
	{errorcode.DatabaseRefused, isRefusedConnection},
	{errorcode.DatabaseUnreachable, unreachable},
	{errorcode.NoAnswer, api.IsNoAnswer},
	{errorcode.DatabaseReadOnly, isReadOnly},
	{errorcode.DatabaseForbidden, isForbidden},
	{errorcode.AddressInUse, is(syscall.EADDRINUSE)},
}

func is(targets ...error) func(error) bool {
	return func(err error) bool {
		for _, target := range targets {
			if errors.Is(err, target) {
				return true
			}
		}
		return false
	}
}

func isA[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// isRefusedConnection reports whether the database answered a connection with a refusal that lasts.
func isRefusedConnection(err error) bool {
	return isA[*pgconn.ConnectError](err) && isA[*pgconn.PgError](err) && !isBusy(err)
}

// operationCode returns the code of an operation as the command line prints it.
func operationCode(code control.Code) errorcode.Code { return errorcode.Code(code) }

// codeOf returns the code and the exit code of an error.
func codeOf(err error) (code errorcode.Code, exit int) {
	if problem, ok := errors.AsType[*control.Problem](err); ok {
		return operationCode(problem.Code), problemExit(problem.Code)
	}
	if own, ok := errors.AsType[*commandError](err); ok {
		return own.code, own.exit
	}
	for _, c := range classes {
		if c.is(err) {
			return c.code, exitOf(c.code)
		}
	}
	if code := problemCode(err); code != control.CodeInternal {
		return operationCode(code), exitFailed
	}
	return errorcode.Failed, exitFailed
}

// exitOf returns the exit code of an error with a code of the command line or of an operation.
func exitOf(code errorcode.Code) int {
	if exit := errorcode.Exit(code); exit != 0 {
		return exit
	}
	return problemExit(control.Code(code))
}

// exitCode returns the exit code of a command that ends with err.
func exitCode(err error) int {
	if err == nil {
		return exitOK
	}
	_, exit := codeOf(err)
	return exit
}
