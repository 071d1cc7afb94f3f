package cli

import (
	"fmt"

	"github.com/oncegate/oncegate/cmd/internal/errorcode"
)

// commandError is an error that a command itself finds.
type commandError struct {
	code errorcode.Code
	exit int
	text string
}

func (e *commandError) Error() string { return e.text }

// errorf returns an error with a code of the command line, whose declaration says the exit code.
func errorf(code errorcode.Code, format string, args ...any) error {
	return &commandError{code, errorcode.Exit(code), fmt.Sprintf(format, args...)}
}

// usagef returns the error of a mistake in the command line.
func usagef(format string, args ...any) error {
	return errorf(errorcode.Usage, format, args...)
}

// refusef returns an error with the code of a refused operation or call, and exit code 2: to repeat the command unchanged cannot help.
func refusef(code errorcode.Code, format string, args ...any) error {
	return &commandError{code, exitUsage, fmt.Sprintf(format, args...)}
}

// failf is like refusef with exit code 1.
func failf(code errorcode.Code, format string, args ...any) error {
	return &commandError{code, exitFailed, fmt.Sprintf(format, args...)}
}

// tryLaterf is like refusef with exit code 75: the failure may be temporary.
func tryLaterf(code errorcode.Code, format string, args ...any) error {
	return &commandError{code, exitTryLater, fmt.Sprintf(format, args...)}
}
