package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// campaign runs the tests against mutants and counts the results.
type campaign struct {
	options  options
	out, err io.Writer
	dir      string        // for the overlay
	limit    time.Duration // for one mutant
	show     func(text string)

	Seed      uint64
	Places    int // the number of possible mutations
	Tried     int // killed, timed out or survived
	Killed    int
	TimedOut  int
	Stillborn int
	Cut       bool // the time ended before the requested number was reached
	Survivors []survivor
}

func newCampaign(o options, places int, out, errs io.Writer) (*campaign, error) {
	dir, err := os.MkdirTemp("", "oncegate-mutants.")
	if err != nil {
		return nil, fmt.Errorf("making a directory: %w", err)
	}
	c := &campaign{options: o, out: out, err: errs, dir: dir, limit: o.limit, Seed: o.seed, Places: places, Survivors: []survivor{}}
	c.show = c.progress()
	return c, nil
}

func (c *campaign) close() { _ = os.RemoveAll(c.dir) }

// baseline runs the tests without a change, once for each set of packages, because a test that
// already fails would kill every mutant. It also measures how long the tests take.
func (c *campaign) baseline(ctx context.Context, packages []pack) error {
	longest := time.Duration(0)
	seen := map[string]bool{}
	for i := range packages {
		p := &packages[i]
		if err := p.choose(ctx, c.options.tests); err != nil {
			return err
		}
		if key := strings.Join(p.tests, " "); seen[key] {
			continue
		} else {
			seen[key] = true
		}
		t := trial{dir: p.Module.Dir, runs: p.runs}
		if c.options.output == "text" {
			fmt.Fprintf(c.err, "tests of %s without a change\n", strings.Join(p.tests, " "))
		}
		began := time.Now()
		v, said, err := t.run(ctx, c.options.length)
		switch {
		case err != nil:
			return err
		case v != alive:
			return fmt.Errorf("the tests of %s fail without any change (%s):\n%s", strings.Join(p.tests, " "), v, said)
		}
		longest = max(longest, time.Since(began))
	}
	if c.limit == 0 {
		c.limit = 3*longest + 30*time.Second
	}
	return nil
}

// try tests mutations until the requested number of mutants that compile has been tested. A mutant
// whose test is unfinished when the time ends does not count.
func (c *campaign) try(ctx context.Context, mutations []mutation) error {
	limited, cancel := context.WithTimeout(ctx, c.options.length)
	defer cancel()
	for i := range mutations {
		m := &mutations[i]
		if c.Tried == c.options.number {
			return nil
		}
		path, err := overlay(c.dir, m)
		if err != nil {
			return err
		}
		t := trial{dir: m.pack.Module.Dir, overlay: path, runs: m.pack.runs}
		v, _, err := t.run(limited, c.limit)
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			c.Cut = true
			return nil
		}
		if err != nil {
			return err
		}
		c.count(m, v)
		c.show(fmt.Sprintf("mutants, %d survived", len(c.Survivors)))
	}
	return nil
}

func (c *campaign) count(m *mutation, v verdict) {
	switch v {
	case stillborn:
		c.Stillborn++
		return
	case killed:
		c.Killed++
	case timedOut:
		c.TimedOut++
	case alive:
		s := survivor{Place: m.place(), Kind: m.Kind, Diff: m.diff(), Tests: m.pack.tests}
		c.Survivors = append(c.Survivors, s)
		if c.options.output == "text" {
			s.print(c.out)
		}
	}
	c.Tried++
}
