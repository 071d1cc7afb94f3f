package cli

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/control"
	"github.com/oncegate/oncegate/internal/sleep"
)

// every calls do repeatedly until it is done. The slower do is, the longer the pauses.
func every(ctx context.Context, pause time.Duration, do func() (done bool, err error)) error {
	for {
		began := time.Now()
		done, err := do()
		if err != nil || done {
			return err
		}
		if err := sleep.For(ctx, max(pause, 4*time.Since(began))); err != nil {
			return err
		}
	}
}

// progressLines writes progress as lines on stderr if there is no terminal for a progress bar.
type progressLines struct {
	s    *shell
	last string
	at   time.Time
}

// sayEvery is the shortest interval between two lines.
const sayEvery = 2 * time.Second

// followLines returns nil on a terminal, where a progress bar is shown instead.
func (s *shell) followLines() *progressLines {
	if file, ok := s.err.(*os.File); ok && isTerminal(file) && s.output != "json" {
		return nil
	}
	return &progressLines{s: s}
}

// say writes a line, unless it equals the previous one or follows it too soon.
func (p *progressLines) say(text string) {
	if p == nil || text == p.last || time.Since(p.at) < sayEvery {
		return
	}
	p.last, p.at = text, time.Now()
	fmt.Fprintln(p.s.err, "oncegate: "+clean(text))
}

// unsettled counts the effects that are not at rest, by state. The key "" counts those that will
// continue without an operator: all except held effects, which may need one.
func unsettled(states map[string]int) map[string]int {
	out := map[string]int{}
	for state, n := range states {
		if atRest(state) {
			continue
		}
		out[state] = n
		if state != string(inbox.EffectHeld) {
			out[""] += n
		}
	}
	return out
}

// countsText lists counts by name, as in "done 12, retry 3".
func countsText(counts map[string]int) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		if counts[name] > 0 {
			out = append(out, fmt.Sprintf("%s %d", name, counts[name]))
		}
	}
	return strings.Join(out, ", ")
}

// followEvent waits until the effects of an event need an operator or are at rest, and returns the
// event.
func (s *shell) followEvent(ctx context.Context, event inbox.ID) (*read.EventDetail, error) {
	lines := s.followLines()
	var detail *read.EventDetail
	err := s.control(ctx, "", func(caller control.Caller) error {
		return every(ctx, followEvery, func() (done bool, err error) {
			if detail, err = control.Call(ctx, caller, &control.ShowEvent, control.EventReference{Ref: event.String()}); err != nil {
				return false, err
			}
			states := detail.EffectStates.ByState()
			lines.say("carrying out: " + countsText(states))
			return unsettled(states)[""] == 0, nil
		})
	})
	return detail, err
}
