package mail_test

import (
	"flag"
	"strconv"
	"testing"

	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/effecttest"
)

var exhibit = flag.String("exhibit", "", "the wrong kind that an exhibit puts before the suite")

func TestExhibitMail(t *testing.T) { //nolint:paralleltest // Run makes it parallel
	if *exhibit == "" {
		return // nothing is on show
	}
	effecttest.Run(t, effecttest.Mail(func(tb testing.TB, to effecttest.MailTo) (effect.Sender, func(*effect.Call, string) ([]byte, error)) {
		if *exhibit == "in the clear" {
			to.Plain = true
		}
		right, render := mailTo(tb, to)
		switch *exhibit {
		case "repeats after the dot":
			return effecttest.Changed(right, effecttest.RepeatUnknown), render
		case "quotes the server":
			return effecttest.Changed(right, func(r *effect.Result) { r.Excerpt = "535 not with " + effecttest.Password }), render
		case "fresh Message-ID":
			return right, func(call *effect.Call, to string) ([]byte, error) {
				call.Key += strconv.Itoa(call.Attempt)
				return render(call, to)
			}
		}
		return right, render
	}))
}

func TestTheSuiteFailsWrongMails(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		test, exhibit string
		fails         []effecttest.Topic
	}{
		{"TestExhibitMail", "repeats after the dot", []effecttest.Topic{effecttest.BreaksAfter, effecttest.StallsAfter, effecttest.HalfReply}},
		{"TestExhibitMail", "quotes the server", []effecttest.Topic{effecttest.Secrets}},
		{"TestExhibitMail", "fresh Message-ID", []effecttest.Topic{effecttest.Repeats}},
		{"TestExhibitMail", "in the clear", []effecttest.Topic{effecttest.BreaksBefore}},
	} {
		t.Run(c.exhibit, func(t *testing.T) {
			t.Parallel()
			effecttest.Fails(t, c.test, c.exhibit, c.fails...)
		})
	}
}
