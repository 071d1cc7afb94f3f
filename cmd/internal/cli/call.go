package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/cmd/internal/errorcode"
)

type callFlags struct {
	URL        string        `flag:"--url the ''url'' of the server, or of the source if it ends in /in/<source>"`
	SecretEnv  string        `flag:"--secret-env environment variable with the secret of the credential, or a session's token"`
	SecretFile string        `flag:"--secret-file file with the secret or token"`
	Credential string        `flag:"--credential the credential of the configuration to call as (default the only one)"`
	Key        string        `flag:"--key the idempotency key, sent unchanged"`
	KeyFrom    []string      `flag:"--key-from make the key from these ''name=value'' parts; a part with a comma is put in double quotes"`
	Data       string        `flag:"--data the payload: @file, - for stdin, or the text itself"`
	Contract   string        `flag:"--contract the contract version that the caller was built for"`
	Resumes    string        `flag:"--resumes continue this earlier ''call'', by its event or its key: effects that it has done are left out"`
	InsteadOf  string        `flag:"--instead-of have all of this call done in the place of this earlier ''call'', by its event or its key"`
	Wait       time.Duration `flag:"--wait wait for the result, this long at most once the call is recorded"`
	Timeout    time.Duration `flag:"--timeout keep trying this long until the call is recorded"`

	headers []string
}

// defaultCallWait is how long --wait without a value waits for the result.
const defaultCallWait = 30 * time.Second

func (s *shell) callCommand() *cobra.Command {
	f := callFlags{Timeout: 30 * time.Second}
	cmd := &cobra.Command{
		Use:   "call <source> <operation>",
		Short: "Call an operation of a source, once, and show its result",
		Long: "Call an operation of a source of the provider operation. Oncegate carries the call out once per key, so\n" +
			"the same command may be repeated whenever its outcome is in doubt. The command itself repeats the call,\n" +
			"with the same key, when the server cannot be reached, is overloaded or asks it to come again.\n\n" +
			"--key-from makes the key from its values, in the order run, step, tick and then as written, exactly as a\n" +
			"recipe of the source makes it from fields with these values. Each part is sent as a header as well: run\n" +
			"as Run-Id, the others under their own names. The key is therefore the same whether the source has a\n" +
			"recipe of these headers or takes the caller's key. If the secret is the token of a session, the session\n" +
			"has the run already, and step and tick are all that --key-from may name.\n\n" +
			"The server is --url, else $ONCEGATE_URL, else the one of the configuration, else the running `oncegate\n" +
			"dev`. The secret comes from --secret-env or --secret-file, else from the source in the configuration; it\n" +
			"is never an argument.\n\n" +
			"Exits with 0 if the operation is done, or recorded without --wait; with 1 if it failed, wholly or in\n" +
			"part; with 2 if the call was refused, so that repeating it unchanged cannot help; with 3 if the outcome\n" +
			"is indeterminate and waits for a person or a probe; and with 75 if there was no answer in time, so that\n" +
			"the same command should be repeated.",
		Example: "  oncegate call agents charge --key-from run=42,step=3 --data @charge.json --wait\n" +
			"  oncegate call agents charge --key order-17-charge --data '{\"amount\":100}' --wait=2m --output json\n" +
			"  jq -n '{amount:100}' | oncegate call agents charge --key order-18-charge --data - --secret-env AGENT_SECRET --url https://hooks.example.com",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 3 && args[2] != "" && strings.ContainsAny(args[2][:1], "0123456789") {
				if _, err := time.ParseDuration(args[2]); err == nil {
					return usagef("%q is one argument too many: write --wait=%s, with an equals sign; see `oncegate call --help`", clean(args[2]), clean(args[2]))
				}
			}
			return cobra.ExactArgs(2)(nil, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.call(cmd.Context(), args[0], args[1], f)
		},
	}
	requestFlags(cmd, &f)
	cmd.Flags().StringArrayVar(&f.headers, "header", nil, "one more header, such as 'Traceparent: 00-...'; may be repeated")
	cmd.Flags().Lookup("wait").NoOptDefVal = defaultCallWait.String()
	return cmd
}

// callReport is the JSON output of the command.
type callReport struct {
	Outcome    callOutcome `json:"outcome"`
	Source     string      `json:"source"`
	Operation  string      `json:"operation"`
	Key        string      `json:"key,omitempty"`
	Event      string      `json:"event,omitempty"`
	Location   string      `json:"location,omitempty"`
	HTTPStatus int         `json:"http_status,omitempty"`
	// Replayed reports that the result is the stored one of an earlier call.
	Replayed bool `json:"replayed"`
	// Requests counts all requests, including those for the result.
	Requests int `json:"requests"`
	// Answer is the server's last response, if it is JSON.
	Answer json.RawMessage `json:"answer,omitempty"`
}

func (s *shell) call(ctx context.Context, source, operation string, f callFlags) error {
	if f.Timeout <= 0 {
		return usagef("--timeout %s: must be longer than zero, such as 30s", f.Timeout)
	}
	if f.Wait < 0 {
		return usagef("--wait=%s: must not be negative; leave it out to return once the call is recorded", f.Wait)
	}
	request, err := s.callRequest(source, operation, f)
	if err != nil {
		return err
	}
	caller := &operationCaller{request: request, wait: f.Wait, timeout: f.Timeout, waiting: s.noteWaiting}
	last := caller.run(ctx)
	report := callReport{
		Outcome: last.outcome, Source: source, Operation: operation, Key: request.key, Event: last.Event,
		Location: last.location, HTTPStatus: last.status, Replayed: last.replayed, Requests: caller.requests,
	}
	if json.Valid(last.body) {
		report.Answer = last.body
	}
	if s.output == "json" {
		if err := s.json(report); err != nil {
			return err
		}
	} else if last.Event != "" {
		s.showCall(&report, last)
	}
	return callVerdict(request, last, f)
}

// noteWaiting explains on a terminal why the command has not returned yet. It is called once.
func (s *shell) noteWaiting(fault string, timeout time.Duration) {
	if file, ok := s.err.(*os.File); ok && isTerminal(file) {
		fmt.Fprintf(s.err, "oncegate: %s; trying again for up to %s\n", clean(fault), timeout)
	}
}

// showCall writes the result as text.
func (s *shell) showCall(report *callReport, last *callAnswer) {
	page(s.out, []pair{
		{"operation", report.Operation},
		{"outcome", string(report.Outcome)},
		{"event", report.Event},
		{"location", report.Location},
		{"key", report.Key},
		{"repeated", onlyIf(report.Replayed, "yes, this is the stored result of an earlier call")},
		{"parent", last.Parent},
		{"next", string(last.Next)},
	})
	if len(last.Effects) == 0 {
		return
	}
	fmt.Fprintln(s.out)
	t := &table{header: []string{"ROUTE", "STATE", "REASON", "RESULT"}, spare: []string{"REASON"}}
	for _, e := range last.Effects {
		t.add(e.Route, e.State, e.Reason, oneLine(strings.TrimPrefix(string(e.Result), "null")))
	}
	t.write(s.out, s.width())
}

// callVerdict returns the error that determines the exit code, or nil.
func callVerdict(request *callRequest, last *callAnswer, f callFlags) error {
	event := clean(last.Event)
	switch last.outcome {
	case callDone:
		return nil
	case callRecorded:
		if f.Wait == 0 {
			return nil
		}
		return errorf(errorcode.Unfinished, "the operation is recorded as %s but not finished after %s; repeat the same command to wait longer", event, f.Wait)
	case callFailed:
		return errorf(errorcode.CallFailed, "%s", "the operation failed"+last.effectsThat("failed")+"; "+last.advice())
	case callPartial:
		return errorf(errorcode.CallFailed, "%s", "the operation is done in part"+last.effectsThat("failed")+"; "+last.advice())
	case callIndeterminate:
		return errorf(errorcode.CallUnknown, "the outcome of the operation is unknown%s; do not call again under another key: ask %s later, when a person or a probe has found out",
			last.effectsThat("indeterminate"), clean(cmp.Or(last.location, last.Event)))
	case callRefused:
		why := last.problem(request)
		code := last.errorCode()
		switch {
		case last.recorded:
			return refusef(code, "the operation is recorded as %s, and its result was refused (%s)", event, why)
		case last.Code == "invalid_key" && len(f.KeyFrom) > 0:
			why += "); the key " + clean(request.key) + " is made of --key-from: add a part that names what the call means, such as order=1742"
			return refusef(code, "the call was refused (%s", why)
		}
		return refusef(code, "the call was refused (%s)", why)
	case callNoAnswer:
	}
	text := last.fault
	if last.Event != "" {
		text += "; the operation is recorded as " + event
	}
	return errorf(errorcode.ServerUnreachable, "%s; repeat the same command: its key makes that safe", text)
}
