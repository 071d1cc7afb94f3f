package config

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/goccy/go-yaml"

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

func (r *reader) probe(n *yamltree.Node) *Probe {
	p := &Probe{}
	n.Fields(map[string]func(*yamltree.Node){
		"url":          r.reference(&p.URL, verbatim),
		"headers":      func(n *yamltree.Node) { p.Headers = r.headers(n) },
		"done":         func(n *yamltree.Node) { p.Done = r.statuses(n) },
		"absent":       func(n *yamltree.Node) { p.Absent = r.statuses(n) },
		"every":        yamltree.Duration(&p.Every),
		"absent_after": yamltree.Duration(&p.AbsentAfter),
		"timeout":      yamltree.Duration(&p.Timeout),
	})
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

func (r *reader) statuses(n *yamltree.Node) []int {
	out := yamltree.ReadList(n, httpStatus)
	if len(out) == 0 && n.Sound() {
		n.Fail("the list is empty")
	}
	return out
}

func httpStatus(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 200 || n > 599 {
		return 0, errors.New("not an HTTP status from 200 to 599")
	}
	return n, nil
}

func (p *Probe) append(to yaml.MapSlice) yaml.MapSlice {
	if p == nil {
		return to
	}
	out := yaml.MapSlice{item("url", p.URL)}
	if len(p.Headers) > 0 {
		headers := yaml.MapSlice{}
		for _, name := range slices.Sorted(maps.Keys(p.Headers)) {
			headers = append(headers, item(name, "<secret>"))
		}
		out = append(out, item("headers", headers))
	}
	if len(p.Done) > 0 {
		out = append(out, item("done", p.Done))
	}
	if len(p.Absent) > 0 {
		out = append(out, item("absent", p.Absent))
	}
	out = duration(out, "every", p.Every)
	out = duration(out, "absent_after", p.AbsentAfter)
	out = duration(out, "timeout", p.Timeout)
	return append(to, item("probe", out))
}
