package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

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

func (r *reader) probe(n ast.Node, where string) *Probe {
	p := &Probe{}
	before := len(r.problems)
	r.object(n, where, map[string]func(field){
		"url":          func(f field) { r.reference(f, where, &p.URL, verbatim) },
		"headers":      func(f field) { p.Headers = r.headers(f.value, where+".headers") },
		"done":         func(f field) { p.Done = r.statuses(f.value, where+".done") },
		"absent":       func(f field) { p.Absent = r.statuses(f.value, where+".absent") },
		"every":        r.duration(&p.Every, where),
		"absent_after": r.duration(&p.AbsentAfter, where),
		"timeout":      r.duration(&p.Timeout, where),
	})
	if len(r.problems) > before {
		return p
	}
	if p.URL == "" {
		r.at(n, "%s: url is missing", where)
		return p
	}
	if _, err := forward.NewProber(p.Effect()); err != nil {
		for _, line := range lines(err) {
			r.at(n, "%s: %s", where, line)
		}
	}
	return p
}

func (r *reader) statuses(n ast.Node, where string) []int {
	var out []int
	for i, one := range r.list(n, where) {
		var status int
		parsed(r, one, fmt.Sprintf("%s[%d]", where, i), &status, httpStatus)
		out = append(out, status)
	}
	if len(out) == 0 {
		r.at(n, "%s: the list is empty", where)
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
