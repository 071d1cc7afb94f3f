package console

import (
	"errors"
	"net/url"
	"strings"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/control"
)

// find redirects to the object that the user names: by our id, by source/event-id, by the sender's id alone, by an idempotency
// key or a Message-ID, or by a label of an event, with its name or without. If a key or a label matches several, it redirects to their list.
func find(r *request) (*page, error) {
	q := r.query("q")
	if q == "" {
		return r.seeOther("/events", "")
	}
	event, err := call(r, &control.ShowEvent, control.EventReference{Ref: q})
	if err == nil {
		return r.seeOther("/events/"+event.ID.String(), "")
	}
	if found, err := findOther(r, q); err != nil || found != "" {
		if err != nil {
			return nil, err
		}
		return r.seeOther(found, "")
	}
	if read.IsKeyReference(q) {
		return findByKey(r, q)
	}
	problem, ok := errors.AsType[*control.Problem](err)
	if ok && problem.Code == control.CodeAmbiguous {
		return ambiguous(q, problem), nil
	}
	if ok && problem.Code != control.CodeNotFound && problem.Code != control.CodeInvalid ||
		!ok && !errors.Is(err, inbox.ErrNotFound) && !errors.Is(err, read.ErrReference) && !errors.Is(err, inbox.ErrID) {
		return nil, err
	}
	if found, err := findByLabel(r, q); found != nil || err != nil {
		return found, err
	}
	return notFound(q), nil
}

// findByLabel finds events by a label, as name=value or by its value alone. It returns no page if there is none, or if the user may
// not search by content.
func findByLabel(r *request, q string) (*page, error) {
	if !r.may(control.ReadPayload) {
		return nil, nil //nolint:nilnil // nothing is found
	}
	found, err := call(r, &control.ListEvents, control.ListEventsRequest{Label: q, PageRequest: control.PageRequest{Limit: 2}})
	problem, _ := errors.AsType[*control.Problem](err)
	switch {
	case problem != nil && problem.Code == control.CodeAmbiguous:
		return ambiguous(q, problem), nil
	case problem != nil && problem.Code == control.CodeInvalid:
		return nil, nil //nolint:nilnil // it is no label
	case err != nil:
		return nil, err
	case len(found.Data) == 1 && !found.HasMore:
		return r.seeOther(eventLink(found.Data[0].ID), "")
	case len(found.Data) > 0:
		return r.seeOther(to("/events", "label", q), "")
	}
	return nil, nil //nolint:nilnil // nothing is found
}

func findByKey(r *request, key string) (*page, error) {
	found, err := call(r, &control.ListEffects, control.ListEffectsRequest{Key: key, PageRequest: control.PageRequest{Limit: 2}})
	switch {
	case err != nil:
		return nil, err
	case len(found.Data) == 1 && !found.HasMore:
		return r.seeOther(effectLink(found.Data[0].ID), "")
	case len(found.Data) > 0:
		return r.seeOther(to("/effects", "key", key), "")
	}
	return notFound(key), nil
}

func ambiguous(q string, problem *control.Problem) *page {
	return &page{Title: "Several things have this name", Lead: q, Blocks: []block{{Notice: &notice{Kind: "warn", Text: problem.Detail}}}}
}

func notFound(q string) *page {
	b := block{Notice: &notice{Kind: "warn", Text: "Nothing that is recorded has this id.", Detail: q}}
	b.Text = "A search takes one of our ids, a sender's id, both as source/event-id, the idempotency key or Message-ID of an effect, or a label of an event such as order=1042. If a delivery is missing, look at the refusals, because a refused delivery is not recorded as an event."
	b.Links = []link{{Text: "Events", Href: "/events"}, {Text: "Refusals", Href: "/refusals"}}
	if why := read.WhyNoKey(q); why != "" {
		b.Text = "No effect is found by it: " + why + "."
	} else if source, _, both := strings.Cut(q, "/"); both {
		b.Links = append(b.Links, link{Text: "Events of " + source, Href: "/events?" + url.Values{"source": {source}}.Encode()})
	}
	return &page{Title: "Not found", Blocks: []block{b}}
}
