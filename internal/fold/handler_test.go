package fold_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncegate/oncegate/internal/fold"
	"github.com/oncegate/oncegate/internal/logtest"
)

// written collects the lines that the handler wrote.
type written struct{ logtest.Buffer }

type line struct {
	Msg    string
	Level  string
	Of     string
	Lines  int
	Source string
	Reason string
	Event  string
}

func (w *written) lines(tb testing.TB) (out []line) {
	tb.Helper()
	for d := json.NewDecoder(strings.NewReader(w.String())); d.More(); {
		var l line
		if err := d.Decode(&l); err != nil {
			tb.Fatal(err)
		}
		out = append(out, l)
	}
	return out
}

// told counts the lines by message: those that were written, and those that a summary counts.
func told(lines []line) (direct, folded map[string]int) {
	direct, folded = map[string]int{}, map[string]int{}
	for _, l := range lines {
		if l.Msg == fold.Message {
			folded[l.Of] += l.Lines
		} else {
			direct[l.Msg]++
		}
	}
	return direct, folded
}

func handler(tb testing.TB, mode fold.Mode) (*written, *fold.Handler, *slog.Logger) {
	tb.Helper()
	w := &written{}
	h, err := fold.New(fold.Config{
		Next: slog.NewJSONHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}), Mode: mode, Hostile: []string{"delivery refused"},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return w, h, slog.New(h)
}

// At a few hundred deliveries per second, the log has a few lines per minute, and counts every line
// that it does not contain.
func TestWhatRepeatsIsFoldedAndCounted(t *testing.T) {
	t.Parallel()
	for mode, want := range map[fold.Mode]struct{ recorded, folded, warned, warnedFolded, refused, refusedFolded, serving int }{
		fold.All:     {recorded: 6000, warned: 6000, refused: 20, refusedFolded: 5980, serving: 1},
		fold.Sampled: {recorded: 2, folded: 5998, warned: 20, warnedFolded: 5980, refused: 20, refusedFolded: 5980, serving: 1},
		fold.Errors:  {warned: 20, warnedFolded: 5980, refused: 20, refusedFolded: 5980, serving: 1},
	} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, h, log := handler(t, mode)
				log.Info("serving")
				for range 2 { // 20 s at 300/s
					for i := range 3000 {
						log.Info("event recorded", "source", "shop", "event", fmt.Sprint(i), "outcome", "recorded")
						log.Warn("conflict recorded", "source", "shop", "event", fmt.Sprint(i), "outcome", "conflict")
						log.Info("delivery refused", "source", "shop", "request", fmt.Sprint(i), "reason", "mismatch")
					}
					<-time.After(fold.Every)
				}
				h.Close()
				direct, folded := told(w.lines(t))
				if direct["event recorded"] != want.recorded || folded["event recorded"] != want.folded {
					t.Errorf("ordinary: %d written and %d counted, want %d and %d", direct["event recorded"], folded["event recorded"], want.recorded, want.folded)
				}
				if direct["conflict recorded"] != want.warned || folded["conflict recorded"] != want.warnedFolded {
					t.Errorf("warnings: %d written and %d counted, want %d and %d", direct["conflict recorded"], folded["conflict recorded"], want.warned, want.warnedFolded)
				}
				if direct["delivery refused"] != want.refused || folded["delivery refused"] != want.refusedFolded {
					t.Errorf("refusals: %d written and %d counted, want %d and %d", direct["delivery refused"], folded["delivery refused"], want.refused, want.refusedFolded)
				}
				if direct["serving"] != want.serving {
					t.Error("what the process says of itself is missing")
				}
			})
		})
	}
}

// The only line of its kind is always written, regardless of the number of other lines.
func TestKindsAreToldApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, h, log := handler(t, fold.Sampled)
		for range 1000 {
			log.Warn("effect dead", "source", "shop", "effect", "e", "reason", "exhausted")
		}
		log.Warn("effect dead", "source", "shop", "effect", "e", "reason", "render")
		log.Warn("effect dead", "source", "bank", "effect", "e", "reason", "exhausted")
		log.With("source", "mail").Warn("effect dead", "effect", "e", "reason", "exhausted")
		log.Warn("effect indeterminate", "source", "shop", "effect", "e", "reason", "timeout")
		h.Close()
		kinds := map[string]int{}
		for _, l := range w.lines(t) {
			kinds[l.Msg+" "+l.Source+" "+l.Reason]++
		}
		for _, k := range []string{"effect dead shop render", "effect dead bank exhausted", "effect dead mail exhausted", "effect indeterminate shop timeout"} {
			if kinds[k] != 1 {
				t.Errorf("%q is there %d times", k, kinds[k])
			}
		}
		if kinds["effect dead shop exhausted"] != fold.Burst {
			t.Errorf("the flood has %d lines", kinds["effect dead shop exhausted"])
		}
	})
}

// Summaries are written every minute, not only at the end, and count each line once.
func TestTheSummaryComesEachMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, h, log := handler(t, fold.Sampled)
		for range 3 {
			for range 50 {
				log.Info("effect done", "source", "shop", "effect", "e")
			}
			<-time.After(fold.Summary)
			synctest.Wait()
		}
		var summaries []int
		for _, l := range w.lines(t) {
			if l.Msg == fold.Message && l.Of == "effect done" && l.Source == "shop" && l.Level == "INFO" {
				summaries = append(summaries, l.Lines)
			}
		}
		if fmt.Sprint(summaries) != "[49 49 49]" {
			t.Errorf("the summaries count %v", summaries)
		}
		h.Close()
		log.Info("effect done", "source", "shop", "effect", "last")
		if lines := w.lines(t); lines[len(lines)-1].Msg != "effect done" {
			t.Error("a line after the end is lost")
		}
	})
}

// Every line that is logged while the process stops is written or counted.
func TestNoCountIsLostAtTheEnd(t *testing.T) {
	t.Parallel()
	w, h, log := handler(t, fold.Sampled)
	const workers, each = 8, 2000
	var wg sync.WaitGroup
	half := make(chan struct{}, workers)
	for range workers {
		wg.Go(func() {
			for i := range each {
				if i == each/2 {
					half <- struct{}{}
				}
				log.Info("effect done", "source", "shop", "effect", "e")
			}
		})
	}
	<-half
	h.Close()
	wg.Wait()
	direct, folded := told(w.lines(t))
	if got := direct["effect done"] + folded["effect done"]; got != workers*each {
		t.Errorf("%d written and %d counted: %d of %d", direct["effect done"], folded["effect done"], got, workers*each)
	}
}

// With any number of kinds, the memory use is limited and no line is lost.
func TestManyKindsAreFoldedTogether(t *testing.T) {
	t.Parallel()
	w, h, log := handler(t, fold.Sampled)
	const n = 5000
	for range 2 {
		for i := range n {
			log.Info("event recorded", "source", fmt.Sprint(i), "event", "e")
		}
	}
	h.Close()
	direct, folded := told(w.lines(t))
	if direct["event recorded"] > 1100 || direct["event recorded"]+folded["event recorded"] != 2*n {
		t.Errorf("%d written and %d counted of %d", direct["event recorded"], folded["event recorded"], 2*n)
	}
}

func TestDebugLinesAreLeftAlone(t *testing.T) {
	t.Parallel()
	w, h, log := handler(t, fold.Errors)
	for range 30 {
		log.Debug("effect stays indeterminate", "effect", "e")
	}
	h.Close()
	if n := len(w.lines(t)); n != 30 {
		t.Errorf("%d lines", n)
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{"all": true, "sampled": true, "errors": true, "": false, "none": false, "ALL": false} {
		if _, err := fold.Parse(text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := fold.New(fold.Config{}); err == nil {
		t.Error("made without a handler")
	}
}
