package cli

import (
	"context"
	"strings"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/control"
)

// Clean is what makes control characters visible.
func Clean(s string) string { return clean(s) }

// Table lays out rows for a terminal of the given width.
func Table(header []string, rows [][]string, width int) string {
	t := &table{header: header}
	for _, row := range rows {
		t.add(append([]string{}, row...)...)
	}
	var b strings.Builder
	t.write(&b, width)
	return b.String()
}

// Report writes what the user is told of an error.
func Report(err error) string {
	var b strings.Builder
	report(&b, err)
	return b.String()
}

// Tail follows events, for tests that decide when it looks.
type Tail struct{ t *tail }

// NewTail makes a Tail that shows rows to event and effect.
func NewTail(caller control.Caller, source string, event func(*inbox.EventRow) error, effect func(*inbox.EffectRow) error) *Tail {
	t := newTail(caller, tailFilter{source: source})
	t.event, t.effect = event, effect
	return &Tail{t: t}
}

// StartNow begins with what is recorded from now on.
func (t *Tail) StartNow(ctx context.Context) error { return t.t.startNow(ctx) }

// Poll shows what is new.
func (t *Tail) Poll(ctx context.Context) error { return t.t.poll(ctx) }

// Cursor says where another Tail goes on.
func (t *Tail) Cursor() (string, int) { return t.t.cursor() }

// Resume begins where a cursor ends.
func (t *Tail) Resume(text string) bool { return t.t.resume(text) }

// Kept is how many ids the Tail remembers.
func (t *Tail) Kept() int { return len(t.t.shown) + len(t.t.states) }

// ExitCode is the exit code of a command that ends with err.
func ExitCode(err error) int { return exitCode(err) }
