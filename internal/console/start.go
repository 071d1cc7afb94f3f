package console

import (
	"time"

	"github.com/oncegate/oncegate/internal/control"
)

// waiting is one kind of thing that somebody must decide about.
type waiting struct {
	count, what, href, detail, kind string
	oldest                          time.Time
}

// startPage shows what needs its reader.
func startPage(things []waiting, last *time.Time, now time.Time) *page {
	p := &page{Title: "Needs you"}
	if len(things) == 0 {
		lead := "Nothing waits."
		if last != nil {
			lead = "Nothing waits; the last event came " + ago(*last, now) + "."
		}
		p.Blocks = append(p.Blocks, block{Notice: &notice{Kind: "good", Text: lead}})
	}
	b := block{}
	for _, w := range things {
		b.Tiles = append(b.Tiles, tile{Count: w.count, Text: w.what, Href: w.href, Detail: w.detail, Kind: or(w.kind, "bad"), Oldest: w.oldest})
	}
	p.Blocks = append(p.Blocks, b)
	return p
}

// start shows what needs its reader, counted from the lists.
func start(r *request) (*page, error) {
	var things []waiting
	dead, err := call(r, &control.GroupDeadLetters, control.DeadLetterFilter{})
	if err != nil {
		return nil, err
	}
	if len(dead.Data) > 0 {
		n, oldest := 0, dead.Data[0].First
		for _, g := range dead.Data {
			n += g.Count
			if g.First.Before(oldest) {
				oldest = g.First
			}
		}
		things = append(things, waiting{count: groupDigits(int64(n)), what: "dead letters", href: "/dead", detail: count(len(dead.Data), "cause", "causes"), oldest: oldest})
	}
	newest, err := call(r, &control.ListEvents, control.ListEventsRequest{PageRequest: control.PageRequest{Limit: 1}})
	if err != nil {
		return nil, err
	}
	var last *time.Time
	if len(newest.Data) > 0 {
		last = &newest.Data[0].ReceivedAt
	}
	return startPage(things, last, r.now), nil
}
