package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox/attention"
	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/control"
)

// Endless is [endless].
type Endless struct{ guard endless }

// Check is the method check of [endless].
func (e *Endless) Check(next string, rows int) error { return e.guard.check(next, rows) }

// Clean makes control characters visible.
func Clean(s string) string { return clean(s) }

// Table returns a table for a terminal of the given width.
func Table(header []string, rows [][]string, width int) string {
	t := &table{header: header}
	for _, row := range rows {
		t.add(append([]string{}, row...)...)
	}
	var b strings.Builder
	t.write(&b, width)
	return b.String()
}

// Report returns what stderr shows of an error.
func Report(err error) string {
	var b strings.Builder
	(&shell{err: &b}).report(err)
	return b.String()
}

// Tail follows events in tests, which decide when it polls.
type Tail struct{ t *tail }

// NewTail returns a Tail that passes rows to event and effect.
func NewTail(caller control.Caller, source string, event func(*read.EventRow) error, effect func(*read.EffectRow) error) *Tail {
	t := newTail(caller, tailFilter{source: source})
	t.event, t.effect = func(_ context.Context, row *read.EventRow) error { return event(row) }, effect
	return &Tail{t: t}
}

// StartNow makes the Tail begin with events recorded from now on.
func (t *Tail) StartNow(ctx context.Context) error { return t.t.startNow(ctx) }

// Poll shows new events and effects.
func (t *Tail) Poll(ctx context.Context) error { return t.t.poll(ctx) }

// Cursor returns a text with which another Tail can continue.
func (t *Tail) Cursor() (string, int) { return t.t.cursor() }

// Resume makes the Tail continue at a cursor.
func (t *Tail) Resume(text string) bool { return t.t.resume(text) }

// Kept returns the number of ids that the Tail remembers.
func (t *Tail) Kept() int { return len(t.t.shown) + len(t.t.states) }

// ExitCode returns the exit code of a command that ends with err.
func ExitCode(err error) int { return exitCode(err) }

// CheckDownSteps checks what `migrate down VERSION --yes --from FROM` would take back. FROM 0 is no --from.
func CheckDownSteps(current, version, from int) error {
	return downFlags{yes: true, from: from}.checkSteps(current, version)
}

// RequestFlags adds the flags that a request declares to a command.
func RequestFlags(cmd *cobra.Command, request any) { requestFlags(cmd, request) }

// CommandOf returns the command with which status shows what waits, or an empty string.
func CommandOf(kind attention.Kind) string { return commandOf[kind] }

// PruneAll is [pruneAll] without a terminal.
func PruneAll(ctx context.Context, caller control.Caller, r control.RunPruneRequest, wait time.Duration) (prune.Report, error) {
	return pruneAll(ctx, caller, r, wait, &progress{})
}

// ReadIDs reads the ids of a file.
var ReadIDs = readIDs

// CSV returns rows as CSV.
func CSV(header []string, rows ...[]string) (string, error) {
	var out strings.Builder
	t := &table{header: header}
	for _, row := range rows {
		t.add(row...)
	}
	err := t.writeCSV(&out)
	return out.String(), err
}
