package jobs_test

import (
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	decisionSeed = flag.Uint64("decisions.seed", 0, "the first seed of the interleavings of plans and decisions; 0 takes the time")
	decisionRuns = flag.Int("decisions.runs", 6, "how many interleavings of plans and decisions there are")
)

// decisionActs is how many acts one interleaving has.
const decisionActs = 80

// playDecisions plays one interleaving, with what it was told of in the error.
func playDecisions(tb testing.TB, seed uint64, after func(*bundle)) (*decisionModel, error) {
	tb.Helper()
	m := newDecisionModel(tb, seed)
	m.after = after
	if err := m.play(decisionActs); err != nil {
		return m, fmt.Errorf("seed %d (-decisions.seed=%d -decisions.runs=1), act %d: %w\n%s", seed, seed, m.now, err, strings.Join(m.trace, "\n"))
	}
	return m, nil
}

// Whatever is planned, run, cancelled and resumed in whatever order beside whatever
// decisions: nothing that a person ended is ever sent, unless a person says so later.
func TestNothingThatAPersonEndedIsSent(t *testing.T) { //nolint:tparallel // the rounds follow each other; the interleavings of a round are parallel
	t.Parallel()
	seed := *decisionSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano()) % 1_000_000
	}
	var mu sync.Mutex
	var sent, grants, taken int
	tame := func() bool { return *decisionRuns >= 6 && (grants < 2**decisionRuns || taken < 6**decisionRuns) }
	// Chance may make some interleavings tame. Then the test plays more of them.
	const rounds = 5
	for round := 0; round < rounds && !t.Failed() && (round == 0 || tame()); round++ {
		t.Run(fmt.Sprintf("round %d", round+1), func(t *testing.T) {
			for i := range *decisionRuns {
				own := seed + uint64(round**decisionRuns+i)
				t.Run(fmt.Sprint(own), func(t *testing.T) {
					t.Parallel()
					m, err := playDecisions(t, own, nil)
					if err != nil {
						t.Fatal(err)
					}
					mu.Lock()
					defer mu.Unlock()
					sent, grants, taken = sent+m.sent, grants+m.grants, taken+m.decisions
				})
			}
		})
	}
	t.Logf("seeds from %d: %d sent, %d set going by plans, %d decisions", seed, sent, grants, taken)
	if tame() {
		t.Error("the interleavings are too tame to show anything")
	}
}

// The interleavings find a run that compares too little, and a decision that does not
// tell the runs of itself.
func TestMuseumOfDecisions(t *testing.T) {
	t.Parallel()
	for name, exhibit := range map[string]struct {
		by    string // what the fault says in its end: the decision that was overridden
		seed  uint64 // the first one that is played, to be quick
		wrong func(*bundle)
	}{
		// As it once was.
		"a run that compares the version only, after a discard":    {": discard", 1, versionOnly},
		"a run that compares the version only, after a resolution": {" done", 17, versionOnly},
		"a run that compares the state only": {"", 0, func(b *bundle) {
			b.exec(`UPDATE replay_item i SET effect_version = e.version, effect_revision = e.revision
				FROM effect e WHERE e.id = i.effect_id AND e.state = i.effect_state` + ofRunning)
		}},
		"an unblocked effect keeps its revision":   {": unblock", 28, revisionless},
		"a conflict's admission moves no revision": {": admit", 0, revisionless},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const most = 60
			for seed := exhibit.seed; seed < exhibit.seed+most; seed++ {
				m, err := playDecisions(t, seed, exhibit.wrong)
				if err == nil {
					continue
				}
				if fault, _, _ := strings.Cut(err.Error(), "\n"); strings.HasSuffix(fault, exhibit.by) {
					t.Logf("found with seed %d at act %d: %s", seed, m.now, fault)
					return
				}
			}
			t.Errorf("not found in %d interleavings", most)
		})
	}
}

const ofRunning = ` AND EXISTS (SELECT FROM replay p WHERE p.id = i.replay_id AND p.state = 'running')`

func versionOnly(b *bundle) {
	b.exec(`UPDATE replay_item i SET effect_state = e.state, effect_reason = e.reason, effect_revision = e.revision
		FROM effect e WHERE e.id = i.effect_id AND e.version = i.effect_version AND e.state IN ('dead', 'indeterminate', 'done', 'skipped')` + ofRunning)
}

func revisionless(b *bundle) {
	b.exec(`UPDATE replay_item i SET effect_revision = 0 WHERE true` + ofRunning)
	b.exec(`UPDATE effect SET revision = 0`)
}
