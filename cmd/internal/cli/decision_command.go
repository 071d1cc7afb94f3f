package cli

import (
	"context"
	"reflect"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/internal/control"
)

// decisionCommand is a command that makes one decision with an operation. The fields of the operation's request declare its
// flags, and the operation says what the reason answers and what the user types to confirm. The request has a field
// Reason.
type decisionCommand[Request, Response any] struct {
	Command *cobra.Command
	decision
	s         *shell
	operation *control.Operation[Request, Response]
	request   Request

	// check reads the arguments into the request, and validates it. It may be nil.
	check func(args []string) error

	// on is how the operation runs directly on the database.
	on onDatabase

	// warning returns what the user confirms. It is nil if facts is set, or if there is no confirmation.
	warning func() string

	// facts reads what the decision is about. The function that it returns shows it before the user confirms. It may
	// be nil.
	facts func(ctx context.Context, caller control.Caller) (show func(), err error)

	// failed returns the error to report for an error of the operation. It may be nil.
	failed func(err error) error

	// done shows the response. It is called for JSON only if json is set.
	done func(out *Response) error
	json bool
}

// newDecision returns the command that makes a decision with an operation.
func newDecision[Request, Response any](s *shell, operation *control.Operation[Request, Response], cmd *cobra.Command) *decisionCommand[Request, Response] {
	d := &decisionCommand[Request, Response]{Command: cmd, s: s, operation: operation}
	read := requestFlags(cmd, &d.request)
	d.addExplanation(cmd)
	if operation.Confirm != "" {
		d.addYes(cmd)
	}
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if err := read(); err != nil {
			return err
		}
		if d.check != nil {
			if err := d.check(args); err != nil {
				return err
			}
		}
		return d.run()
	}
	return d
}

// run makes the decision.
func (d *decisionCommand[Request, Response]) run() error {
	if err := d.decision.check(d.s, d.operation.Why); err != nil {
		return err
	}
	reflect.ValueOf(&d.request).Elem().FieldByName("Reason").SetString(d.reason)
	if d.warning != nil {
		if err := d.s.confirm(d.decision, d.operation.Confirm, func() { d.s.warn(d.warning()) }); err != nil {
			return err
		}
	}
	d.on.actor = d.actor
	return d.s.controlWith(d.Command.Context(), d.on, func(caller control.Caller) error {
		if d.facts != nil {
			show, err := d.facts(d.Command.Context(), caller)
			if err == nil && d.operation.Confirm != "" {
				err = d.s.confirm(d.decision, d.operation.Confirm, show)
			}
			if err != nil {
				return err
			}
		}
		out, err := control.Call(d.Command.Context(), caller, d.operation, d.request)
		switch {
		case err != nil && d.failed != nil:
			return d.failed(err)
		case err != nil:
			return err
		case d.json:
			return d.done(&out)
		}
		return shown(d.s, &out, d.done)
	})
}

// failedWith returns a function that replaces the text of errors with a code.
func failedWith(code control.Code, text func() string) func(error) error {
	return func(err error) error {
		if problemCode(err) == code {
			return failf(operationCode(code), "%s", text())
		}
		return err
	}
}

// answer carries out an operation that only reads, and shows its response as JSON or with show.
func answer[Request, Response any](s *shell, cmd *cobra.Command, on onDatabase, operation *control.Operation[Request, Response], request Request, show func(Response) error) error {
	return s.controlWith(cmd.Context(), on, func(caller control.Caller) error {
		out, err := control.Call(cmd.Context(), caller, operation, request)
		if err != nil {
			return err
		}
		return shown(s, out, show)
	})
}

// shown shows a response as JSON or with show.
func shown[Response any](s *shell, out Response, show func(Response) error) error {
	if s.output == "json" {
		return s.json(out)
	}
	return show(out)
}
