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
	"github.com/oncegate/oncegate/internal/control"
	"github.com/oncegate/oncegate/internal/sleep"
)

// every does something again and again until it is done. What takes long is done more seldom.
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

// progressLines says how far something is on lines of the error stream, where there is no terminal for a bar.
type progressLines struct {
	s    *shell
	last string
	at   time.Time
}

// sayEvery is how often a line is written at most.
const sayEvery = 2 * time.Second

// followLines is nil at a terminal.
func (s *shell) followLines() *progressLines {
	if file, ok := s.err.(*os.File); ok && isTerminal(file) && s.output != "json" {
		return nil
	}
	return &progressLines{s: s}
}

// say writes a line that is not the last one.
func (p *progressLines) say(text string) {
	if p == nil || text == p.last || time.Since(p.at) < sayEvery {
		return
	}
	p.last, p.at = text, time.Now()
	fmt.Fprintln(p.s.err, "oncegate: "+clean(text))
}

// unsettled are the effects that are not at rest, by state. Under "" stands how many of them go on by themselves: what is
// held may wait for a person.
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

// countsText lists counts by name: "done 12, retry 3".
func countsText(counts map[string]int) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		if counts[name] > 0 {
			out = append(out, fmt.Sprintf("%s %d", name, counts[name]))
		}
	}
	return strings.Join(out, ", ")
}

// followEvent waits until nothing happens any more to the effects of an event by itself, and says how they ended.
func (s *shell) followEvent(ctx context.Context, event inbox.ID) (*inbox.EventDetail, error) {
	lines := s.followLines()
	var detail *inbox.EventDetail
	err := s.control(ctx, "", func(caller control.Caller) error {
		return every(ctx, followEvery, func() (done bool, err error) {
			if detail, err = control.Call(ctx, caller, &control.ShowEvent, control.EventReference{Ref: event.String()}); err != nil {
				return false, err
			}
			states := map[string]int{}
			for i := range detail.EffectRows {
				states[detail.EffectRows[i].State]++
			}
			lines.say("carrying out: " + countsText(states))
			return unsettled(states)[""] == 0, nil
		})
	})
	return detail, err
}
