package notification

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oncegate/oncegate/inbox/attention"
)

const (
	// grows is the factor by which a count must grow before operators get another message.
	grows = 10

	// forgotten limits how long a thing stays open although no look sees it, if the looks do not see everything of its kind.
	forgotten = 24 * time.Hour
)

// Thing is something that waits for an operator.
type Thing struct {
	// Kind and Name identify it. Name is a target, a source, <source>/<route> or the paused thing. It is empty for kinds without places.
	Kind attention.Kind `json:"kind"`
	Name string         `json:"name,omitempty"`

	// Count is how many effects, events or requests wait there. More says that there are more.
	Count int64 `json:"count"`
	More  bool  `json:"more,omitempty"`

	// Since is when the oldest began to wait. It is absent if that is not known.
	Since *time.Time `json:"since,omitempty"`

	// Text is the thing in one sentence, without its full stop.
	Text string `json:"text"`
}

// Open is a thing that waits, or waited until recently. It also says when operators got a message about it.
type Open struct {
	Thing

	// OpenedAt is the time of the first look that saw it. GoneAt is the time of the first look that no longer saw it. It is absent
	// while looks see it.
	OpenedAt time.Time  `json:"opened_at"`
	GoneAt   *time.Time `json:"gone_at,omitempty"`

	// ToldAt is the time of the last message about it, and ToldCount the count in that message. Both are absent before the first
	// message.
	ToldAt    *time.Time `json:"told_at,omitempty"`
	ToldCount int64      `json:"told_count,omitempty"`
}

// look is the result of one look.
type look struct {
	things []Thing

	// partial contains the kinds of which the look did not see everything. A missing thing of such a kind may still wait.
	partial map[attention.Kind]bool
}

// seen converts the items of some kinds that package attention found.
func seen(found *attention.Attention, kinds []attention.Kind) look {
	out := look{partial: map[attention.Kind]bool{}}
	for i := range found.Data {
		item := &found.Data[i]
		if !slices.Contains(kinds, item.Kind) {
			continue
		}
		out.partial[item.Kind] = item.More || len(item.Places) >= attention.MaxPlaces
		add := func(name, text string, count int64, since *time.Time) {
			out.things = append(out.things, Thing{Kind: item.Kind, Name: name, Count: count, More: item.More, Since: since, Text: text})
		}
		for j := range item.Failures {
			f := &item.Failures[j]
			add(f.Target, f.Sentence(), f.Effects, &f.Oldest)
		}
		for j := range item.Pauses {
			p := &item.Pauses[j]
			add(p.Words(), p.Words()+" is paused since "+attention.Clock(p.Since)+" by "+p.By+": "+p.Reason, 1, &p.Since)
		}
		for j := range item.Places {
			p := &item.Places[j]
			name := strings.TrimSuffix(p.Source+"/"+p.Route, "/")
			add(name, sentence(item, name, p.Count, p.Oldest), p.Count, p.Oldest)
		}
		if len(item.Failures)+len(item.Pauses)+len(item.Places) == 0 && item.Count > 0 {
			add("", sentence(item, "", item.Count, item.Oldest), item.Count, item.Oldest)
		}
	}
	return out
}

// sentence says how many things of a kind wait at a place, and since when.
func sentence(item *attention.Item, place string, count int64, since *time.Time) string {
	at := "at an unknown time"
	if since != nil {
		at = attention.Clock(*since)
	}
	if item.Kind == attention.Silent {
		return "source " + place + " is silent: its last event came " + at
	}
	text := fmt.Sprint(count)
	if item.More {
		text += " or more"
	}
	text += " " + item.Kind.Noun(count)
	if place != "" {
		text += " of " + place
	}
	if since != nil {
		text += ", the oldest since " + at
	}
	return text
}

// plan is the consequence of a look.
type plan struct {
	keep []Open // the rows as they are from now on
	drop []Open // the rows that are over

	opened   []Open // for a message about new things
	resolved []Open // for a message about things that are over: those in drop of which operators know
}

// decide compares the open things with the result of a look. It delays a message until the first new thing has been open for fold,
// because one cause often has many consequences. It keeps a missing thing open for settle, because a thing that comes and goes would
// otherwise produce a message each time.
func decide(now time.Time, fold, settle time.Duration, was []Open, l look) plan {
	type id struct {
		kind attention.Kind
		name string
	}
	before := map[id]Open{}
	for i := range was {
		was[i].notAfter(now)
	}
	for _, o := range was {
		before[id{o.Kind, o.Name}] = o
	}
	var p plan
	var due bool
	var ready []int // indexes in keep of the things for a message
	for _, t := range l.things {
		key := id{t.Kind, t.Name}
		o, known := before[key]
		delete(before, key)
		if !known {
			o.OpenedAt = now
		}
		o.Thing, o.GoneAt = t, nil
		if tellsAt, tells := o.tells(fold); tells {
			ready = append(ready, len(p.keep))
			due = due || !now.Before(tellsAt)
		}
		p.keep = append(p.keep, o)
	}
	for _, o := range was {
		if _, missing := before[id{o.Kind, o.Name}]; !missing {
			continue
		}
		patience := settle
		if l.partial[o.Kind] {
			patience = max(settle, forgotten)
		}
		if o.GoneAt == nil {
			o.GoneAt = &now
		}
		if now.Sub(*o.GoneAt) < patience {
			p.keep = append(p.keep, o)
			continue
		}
		p.drop = append(p.drop, o)
		if o.ToldAt != nil {
			p.resolved = append(p.resolved, o)
		}
	}
	if !due {
		return p
	}
	for _, i := range ready {
		o := &p.keep[i]
		o.ToldAt, o.ToldCount = &now, o.Count
		p.opened = append(p.opened, *o)
	}
	return p
}

// notAfter sets times in the future to now. They are there after the clock of the database was set back, and nothing must wait until it
// has caught up.
func (o *Open) notAfter(now time.Time) {
	if o.OpenedAt.After(now) {
		o.OpenedAt = now
	}
	for _, at := range []**time.Time{&o.GoneAt, &o.ToldAt} {
		if *at != nil && (*at).After(now) {
			*at = &now
		}
	}
}

// tells returns the time from which an open thing needs a message. tells is false if operators know about it.
func (o *Open) tells(fold time.Duration) (at time.Time, tells bool) {
	switch {
	case o.ToldAt == nil:
		return o.OpenedAt.Add(fold), true
	case o.Count >= grows*max(o.ToldCount, 1):
		return o.ToldAt.Add(fold), true
	}
	return time.Time{}, false
}

// sorted sorts things by kind, in the order of the start page, and then by count, with the largest first.
func sorted(all []Open) {
	order := attention.Kinds()
	slices.SortFunc(all, func(a, b Open) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Kind), slices.Index(order, b.Kind)), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name))
	})
}
