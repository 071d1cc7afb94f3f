package notification

import (
	"cmp"
	"slices"
	"time"

	"github.com/oncegate/oncegate/inbox/attention"
)

const (
	// grows is by which factor a number must grow before operators are told again.
	grows = 10

	// forgotten is how long something may be missing from looks that did not see everything of its kind.
	forgotten = 24 * time.Hour
)

// Thing is something that waits for an operator.
type Thing struct {
	// Kind and Name identify it. Name is a target, a source, <source>/<route> or what is paused. It is empty for kinds without places.
	Kind attention.Kind `json:"kind"`
	Name string         `json:"name,omitempty"`

	// Count is how many effects, events or requests wait there. More says that there are more.
	Count int64 `json:"count"`
	More  bool  `json:"more,omitempty"`

	// Since is when the oldest began to wait. It is absent if that is not known.
	Since *time.Time `json:"since,omitempty"`

	// Detail says more in words, such as the last answer of a target. It may be empty.
	Detail string `json:"detail,omitempty"`
}

// Open is a thing that waits, or did until a moment ago, with what operators were told about it.
type Open struct {
	Thing

	// OpenedAt is when a look first saw it. GoneAt is since when looks do not see it any more, and is absent while they do.
	OpenedAt time.Time  `json:"opened_at"`
	GoneAt   *time.Time `json:"gone_at,omitempty"`

	// ToldAt is when operators were last told, and ToldCount the number that they were told. Both are absent before.
	ToldAt    *time.Time `json:"told_at,omitempty"`
	ToldCount int64      `json:"told_count,omitempty"`
}

// look is what one look saw.
type look struct {
	things []Thing

	// partial are the kinds of which the look did not see everything. Nothing of them is over because it was not seen.
	partial map[attention.Kind]bool
}

// seen returns what a reader of package attention found, of some kinds.
func seen(found *attention.Attention, kinds []attention.Kind) look {
	out := look{partial: map[attention.Kind]bool{}}
	for i := range found.Items {
		item := &found.Items[i]
		if !slices.Contains(kinds, item.Kind) {
			continue
		}
		out.partial[item.Kind] = item.More || len(item.Places) >= attention.MaxPlaces
		one := Thing{Kind: item.Kind, More: item.More}
		for j := range item.Failures {
			f := &item.Failures[j]
			t := one
			t.Name, t.Count, t.Since, t.Detail = f.Target, f.Effects, &f.Oldest, f.Answer()
			out.things = append(out.things, t)
		}
		for j := range item.Pauses {
			p := &item.Pauses[j]
			t := one
			t.Name, t.Count, t.Since, t.Detail = p.Words(), 1, &p.Since, "by "+p.By+": "+p.Reason
			out.things = append(out.things, t)
		}
		for j := range item.Places {
			place := &item.Places[j]
			t := one
			t.Name, t.Count, t.Since = place.Source, place.Count, place.Oldest
			if place.Route != "" {
				t.Name += "/" + place.Route
			}
			out.things = append(out.things, t)
		}
		if len(item.Failures)+len(item.Pauses)+len(item.Places) == 0 && item.Count > 0 {
			t := one
			t.Count, t.Since = item.Count, item.Oldest
			out.things = append(out.things, t)
		}
	}
	return out
}

// plan is what follows from a look.
type plan struct {
	keep []Open // the rows as they are from now on
	drop []Open // the rows that are over

	opened   []Open // what operators are told now
	resolved []Open // of drop, what operators had been told
}

// decide compares what waited with what a look saw. Nothing is told before it has waited for fold since it was first seen, so that
// one cause with many consequences makes one message, and nothing is over before it has been gone for settle, so that a thing that comes
// and goes does not make a message each time.
func decide(now time.Time, fold, settle time.Duration, was []Open, l look) plan {
	type id struct {
		kind attention.Kind
		name string
	}
	before := map[id]Open{}
	for _, o := range was {
		before[id{o.Kind, o.Name}] = o
	}
	var p plan
	var due bool
	var ready []int // of keep, what there is to tell
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

// tells returns from when on operators should be told of an open thing. tells is false if they know.
func (o *Open) tells(fold time.Duration) (at time.Time, tells bool) {
	switch {
	case o.ToldAt == nil:
		return o.OpenedAt.Add(fold), true
	case o.Count >= grows*max(o.ToldCount, 1):
		return o.ToldAt.Add(fold), true
	}
	return time.Time{}, false
}

// sorted sorts things as people see them: by kind, and those with the most first.
func sorted(all []Open) {
	order := attention.Kinds()
	slices.SortFunc(all, func(a, b Open) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Kind), slices.Index(order, b.Kind)), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name))
	})
}
