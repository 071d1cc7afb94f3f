package notification_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/oncegate/oncegate/inbox/attention"
	"github.com/oncegate/oncegate/inbox/notification"
	paused "github.com/oncegate/oncegate/inbox/pause"
)

const (
	every  = 30 * time.Second
	fold   = time.Minute
	settle = 5 * time.Minute
)

var began = time.Date(2026, 11, 27, 8, 0, 0, 0, time.UTC)

// world is what waits, and an operator who reads the messages.
type world struct {
	now     time.Time
	waits   map[string]int64     // by name
	since   map[string]time.Time // of what waits: when it began; of what does not: when it ended
	partial bool
	rows    []notification.Open
	knows   map[string]int64 // what the operator believes to wait, with the number
}

// look lets half a minute pass and looks. It fails if a message breaks a rule.
func (w *world) look(t *rapid.T) {
	w.now = w.now.Add(every)
	var things []notification.Thing
	for name, count := range w.waits {
		things = append(things, notification.Thing{Kind: attention.Dead, Name: name, Count: count})
	}
	var opened, resolved []notification.Open
	w.rows, opened, resolved = notification.Decide(w.now, fold, settle, w.rows, things, map[attention.Kind]bool{attention.Dead: w.partial})
	for _, o := range opened {
		count, waits := w.waits[o.Name]
		if known, told := w.knows[o.Name]; !waits || o.Count != count || told && count < 10*known {
			t.Fatalf("the operator, who knows %v, is told of %s with %d; %v wait", w.knows, o.Name, o.Count, w.waits)
		}
		w.knows[o.Name] = count
	}
	for _, o := range resolved {
		if _, told := w.knows[o.Name]; !told {
			t.Fatalf("the operator is told that %s is over and did not know of it", o.Name)
		}
		if _, waits := w.waits[o.Name]; waits || w.partial || w.now.Sub(w.since[o.Name]) < settle {
			t.Fatalf("%s is said to be over, and waits or did until a moment ago", o.Name)
		}
		delete(w.knows, o.Name)
	}
}

// An operator hears of everything that waits for long, hears of its end, and hears of nothing else: whatever comes, goes and grows.
func TestAnOperatorKnowsWhatWaits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := &world{now: began, waits: map[string]int64{}, since: map[string]time.Time{}, knows: map[string]int64{}}
		names := []string{"a", "b", "c"}
		for range rapid.IntRange(1, 60).Draw(t, "looks") {
			name := rapid.SampledFrom(names).Draw(t, "name")
			switch rapid.SampledFrom([]string{"", "", "begins", "ends", "grows", "partial", "clock"}).Draw(t, "what") {
			case "begins":
				if _, waits := w.waits[name]; !waits {
					w.waits[name], w.since[name] = 1, w.now
				}
			case "ends":
				if _, waits := w.waits[name]; waits {
					delete(w.waits, name)
					w.since[name] = w.now
				}
			case "grows":
				if _, waits := w.waits[name]; waits {
					w.waits[name] *= rapid.Int64Range(2, 12).Draw(t, "factor")
				}
			case "partial":
				w.partial = !w.partial
			case "clock": // is set back
				w.now = w.now.Add(-time.Hour)
				for name, since := range w.since {
					if since.After(w.now) {
						w.since[name] = w.now
					}
				}
			}
			w.look(t)
		}
		// Everything stays as it is. After the longest wait the operator knows it as it is.
		w.partial = false
		for range int((fold+settle)/every) + 2 {
			w.look(t)
		}
		for name, count := range w.waits {
			if known, told := w.knows[name]; !told || count >= 10*known {
				t.Fatalf("%d wait at %s, and the operator knows %v", count, name, w.knows)
			}
		}
		if len(w.knows) != len(w.waits) || len(w.rows) != len(w.waits) {
			t.Fatalf("the operator knows %v, and there are %d rows; %v wait", w.knows, len(w.rows), w.waits)
		}
	})
}

// One cause that makes many things wait makes one message, which comes when the first has waited long enough.
func TestThingsThatBeginTogetherAreToldTogether(t *testing.T) {
	t.Parallel()
	var rows, opened []notification.Open
	var things []notification.Thing
	for i, want := range []int{0, 0, 3, 0} {
		if i < 3 {
			things = append(things, notification.Thing{Kind: attention.Dead, Name: fmt.Sprint(i), Count: 1})
		}
		rows, opened, _ = notification.Decide(began.Add(time.Duration(i)*every), fold, settle, rows, things, nil)
		if len(opened) != want {
			t.Errorf("look %d tells of %d things, want %d", i, len(opened), want)
		}
	}
}

// What a look could not see in full is not over because it was not seen, unless that lasts for a day.
func TestWhatALookDidNotSeeIsNotOver(t *testing.T) {
	t.Parallel()
	partial := map[attention.Kind]bool{attention.Dead: true}
	told := began
	rows := []notification.Open{{Thing: notification.Thing{Kind: attention.Dead, Name: "a", Count: 1}, OpenedAt: began, ToldAt: &told, ToldCount: 1}}
	rows, _, resolved := notification.Decide(began.Add(time.Hour), fold, settle, rows, nil, partial)
	rows, _, more := notification.Decide(began.Add(24*time.Hour), fold, settle, rows, nil, partial)
	if len(rows) != 1 || len(resolved)+len(more) != 0 {
		t.Errorf("%d rows are left and %d things are over after 23 hours, want one and none", len(rows), len(resolved)+len(more))
	}
	if rows, _, resolved = notification.Decide(began.Add(25*time.Hour), fold, settle, rows, nil, partial); len(rows) != 0 || len(resolved) != 1 {
		t.Errorf("%d rows are left and %d things are over after a day", len(rows), len(resolved))
	}
}

// Each thing has a sentence that names it and says since when. A count that is a lower bound says so.
func TestSentences(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, 11, 27, 16, 54, 3, 0, time.UTC)
	found := &attention.Attention{Data: []attention.Item{
		{Kind: attention.Undeclared, Count: 1, Oldest: &since},
		{Kind: attention.Failing, Count: 2, Failures: []attention.Failure{
			{Target: "psp-charge", Effects: 50, Oldest: since, Code: "500"}, {Target: "mail", Effects: 1, Oldest: since, Reason: "timeout"},
		}},
		{Kind: attention.Dead, Count: 1, Places: []attention.Place{{Source: "stripe", Route: "billing", Count: 1, Oldest: &since}}},
		{Kind: attention.Gaps, Count: 0, More: true},
		{Kind: attention.Silent, Count: 1, Places: []attention.Place{{Source: "github", Count: 1, Oldest: &since}}},
		{Kind: attention.Refusals, Count: 10000, More: true, Places: []attention.Place{{Source: "github", Count: 10000, Oldest: &since}}},
		{Kind: attention.Suspected, Count: 4, Places: []attention.Place{{Source: "github", Count: 4}}},
		{Kind: attention.Plans, Count: 2, Oldest: &since},
		{Kind: attention.Paused, Count: 1, Pauses: paused.Pauses{{Thing: paused.Thing{Kind: paused.Target, Name: "psp"}, Since: since, By: "ann", Reason: "a repair"}}},
	}}
	var got []string
	for _, thing := range notification.Seen(found, notification.DefaultKinds()) {
		got = append(got, thing.Name+": "+thing.Text)
	}
	want := []string{
		": 1 undeclared database, the oldest since 2026-11-27 16:54 UTC",
		"psp-charge: target psp-charge fails: 50 effects wait since 2026-11-27 16:54 UTC, last answer 500",
		"mail: target mail fails: 1 effect waits since 2026-11-27 16:54 UTC, no answer: timeout",
		"stripe/billing: 1 dead letter of stripe/billing, the oldest since 2026-11-27 16:54 UTC",
		"github: source github is silent: its last event came 2026-11-27 16:54 UTC",
		"github: 10000 or more refusals in 24 hours of github, the oldest since 2026-11-27 16:54 UTC",
		"github: 4 suspected replays in 24 hours of github",
		"target psp: target psp is paused since 2026-11-27 16:54 UTC by ann: a repair",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the things are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Messages have each thing in its sentence, and say what to do.
func TestMessages(t *testing.T) {
	t.Parallel()
	thing := func(kind attention.Kind, text string) notification.Open {
		return notification.Open{Thing: notification.Thing{Kind: kind, Count: 1, Text: text}}
	}
	failing := thing(attention.Failing, "target psp-charge fails: 50 effects wait since 2026-11-27 16:54 UTC, last answer 500")
	dead := thing(attention.Dead, "1 dead letter of stripe/billing, the oldest since 2026-11-27 16:54 UTC")
	many := thing(attention.Refusals, "10000 or more refusals in 24 hours of github")
	pause := thing(attention.Paused, "target psp is paused since 2026-11-27 16:54 UTC by ann: a repair")
	silent := thing(attention.Silent, "source github is silent: its last event came 2026-11-27 16:54 UTC")
	for _, c := range []struct {
		kind        string
		things      []notification.Open
		waiting     int
		title, text string
	}{
		{notification.Opened, []notification.Open{failing}, 1, "An operator is needed: target psp-charge fails: 50 effects wait since 2026-11-27 16:54 UTC, last answer 500", `An operator is needed: target psp-charge fails: 50 effects wait since 2026-11-27 16:54 UTC, last answer 500. Mend the target: its effects are tried again by themselves. Or pause it.

1 thing waits for an operator in all
https://oncegate.example`},
		{notification.Opened, []notification.Open{many, dead}, 3, "An operator is needed: 1 dead letter of stripe/billing, the oldest since 2026-11-27 16:54 UTC, and 1 more", `An operator is needed: 1 dead letter of stripe/billing, the oldest since 2026-11-27 16:54 UTC, and 1 more

- 1 dead letter of stripe/billing, the oldest since 2026-11-27 16:54 UTC. Mend the cause, then replay or discard.
- 10000 or more refusals in 24 hours of github. Read the diagnosis, or acknowledge what needs nothing.

3 things wait for an operator in all
https://oncegate.example`},
		{notification.Resolved, []notification.Open{pause}, 0, "Over: target psp is paused since 2026-11-27 16:54 UTC by ann: a repair", `Over: target psp is paused since 2026-11-27 16:54 UTC by ann: a repair.

Nothing else waits for an operator
https://oncegate.example`},
		{notification.Digest, nil, 0, "Nothing waits for an operator", "Nothing waits for an operator\nhttps://oncegate.example"},
		{notification.Digest, []notification.Open{silent}, 1, "1 thing waits for an operator in all", `1 thing waits for an operator in all

- source github is silent: its last event came 2026-11-27 16:54 UTC. Ask its provider.
https://oncegate.example`},
		{notification.Test, nil, 0, "A test: notifications of Oncegate arrive here", "A test: notifications of Oncegate arrive here\nhttps://oncegate.example"},
	} {
		title, text := notification.Message(c.kind, "https://oncegate.example", slices.Clone(c.things), c.waiting)
		if title != c.title || text != c.text {
			t.Errorf("%s:\n%s\n%s\nwant\n%s\n%s", c.kind, title, text, c.title, c.text)
		}
	}
}
