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

// Probe is how a target is asked whether it has done an effect.
type Probe struct {
	// URL is asked by GET; {key}, {event} and {event_id} are filled in.
	URL string
	// Headers are sent along. Their values are not printed.
	Headers map[string]string
	// Done and Absent are the statuses that say yes and no; 200 and 404 by default.
	Done, Absent []int
	// Every is the first pause before the same effect is asked about again; 30 s by default.
	Every time.Duration
	// AbsentAfter is how old an attempt must be before no is believed; 10 m by default.
	AbsentAfter time.Duration
	// Timeout bounds one question; 10 s by default.
	Timeout time.Duration
}

// Effect gives what the kind needs.
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
