package effect_test

import (
	"flag"
	"testing"

	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/effecttest"
)

var exhibit = flag.String("exhibit", "", "the wrong kind that an exhibit puts before the suite")

func TestExhibitHandler(t *testing.T) { //nolint:paralleltest // Run makes it parallel
	if *exhibit == "" {
		return // nothing is on show
	}
	effecttest.Run(t, effecttest.Outside(func(_ testing.TB, handle effecttest.Handle) effect.Sender {
		return effecttest.Changed(&effect.OutsideHandler{Handle: handle}, effecttest.RepeatUnknown)
	}))
}

func TestTheSuiteFailsWrongHandlers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		test, exhibit string
		fails         []effecttest.Topic
	}{
		{"TestExhibitHandler", "repeats what may have happened", []effecttest.Topic{effecttest.BreaksAfter, effecttest.AnswersAfter, effecttest.StallsAfter}},
	} {
		t.Run(c.exhibit, func(t *testing.T) {
			t.Parallel()
			effecttest.Fails(t, c.test, c.exhibit, c.fails...)
		})
	}
}
