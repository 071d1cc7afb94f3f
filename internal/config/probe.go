package config

import (
	"fmt"
	"strconv"
	"time"

	"github.com/oncegate/oncegate/internal/yamltree"
	"github.com/oncegate/oncegate/jobs/effect/forward"
)

// Probe configures how to ask a target whether an effect happened.
type Probe struct {
	// URL is the address of the GET request, in which {key}, {event} and {event_id} are replaced.
	URL string
	// Headers are sent with the request. Their values are never printed.
	Headers map[string]string
	// Done and Absent are the statuses that mean yes and no. They default to 200 and 404.
	Done, Absent []int
	// Every is the first pause before the target is asked about the same effect again. It defaults
	// to 30 s.
	Every time.Duration
	// AbsentAfter is how old an attempt must be before the answer no is trusted. It defaults to 10
	// m.
	AbsentAfter time.Duration
	// Timeout limits one request. It defaults to 10 s.
	Timeout time.Duration
}

// Effect returns the configuration of the prober for package forward.
func (p *Probe) Effect() forward.ProberConfig {
	return forward.ProberConfig{URL: p.URL, Headers: p.Headers, Done: p.Done, Absent: p.Absent, Timeout: p.Timeout}
}

func (p *Probe) keys() []Key {
	return []Key{
		reference("url", &p.URL, verbatim, "required", "The address to ask, with `{key}`, `{event}` or `{event_id}` in it."),
		headers("headers", &p.Headers, "none", "Headers of the question. Their values are never printed."),
		list("done", &p.Done, statuses(200, ""), "`[200]`", "Statuses that mean that the effect happened. The body of the answer, up to 64 KiB, becomes the result of the effect.").notEmpty(""),
		list("absent", &p.Absent, statuses(200, ""), "`[404]`", "Statuses that mean that it did not.").notEmpty(""),
		value("every", &p.Every, duration, "`30s`", "The pause between two questions about one effect."),
		value("absent_after", &p.AbsentAfter, duration, "`10m`", "How old the last attempt must be before `absent` is believed, since the request may still be on its way."),
		value("timeout", &p.Timeout, duration, "`10s`", "The longest question."),
	}
}

func (r *reader) probe(n *yamltree.Node) *Probe {
	p := &Probe{}
	r.fields(n, p.keys())
	if !n.Sound() {
		return p
	}
	if p.URL == "" {
		n.Fail("url is missing")
		return p
	}
	_, err := forward.NewProber(p.Effect())
	failLines(n, err)
	return p
}

// statuses is the form of HTTP statuses from least.
func statuses(least int, hint string) form[int] {
	return form[int]{
		parse: func(s string) (int, error) {
			n, err := strconv.Atoi(s)
			if err != nil || n < least || n > 599 {
				return 0, fmt.Errorf("not an HTTP status from %d to 599%s", least, hint)
			}
			return n, nil
		},
		schema: integerFrom(least),
	}
}
