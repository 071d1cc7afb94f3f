package console

import (
	"errors"
	"net/url"
	"strings"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/control"
)

// find leads to the one thing that somebody names: by our id, by source/event-id, or by the sender's id alone.
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
	problem, ok := errors.AsType[*control.Problem](err)
	if ok && problem.Code == control.CodeAmbiguous {
		return ambiguous(q, problem), nil
	}
	if ok && problem.Code != control.CodeNotFound && problem.Code != control.CodeInvalid ||
		!ok && !errors.Is(err, inbox.ErrNotFound) && !errors.Is(err, inbox.ErrReference) && !errors.Is(err, inbox.ErrID) {
		return nil, err
	}
	return notFound(q), nil
}

func ambiguous(q string, problem *control.Problem) *page {
	return &page{Title: "Several things have this name", Lead: q, Blocks: []block{{Notice: &notice{Kind: "warn", Text: problem.Detail}}}}
}

func notFound(q string) *page {
	b := block{Notice: &notice{Kind: "warn", Text: "Nothing that is recorded has this id.", Detail: q}}
	b.Text = "A search takes one of our ids, a sender's id, or both as source/event-id. If a delivery is missing, look at the refusals: what is refused is not recorded as an event."
	b.Links = []link{{Text: "Events", Href: "/events"}, {Text: "Refusals", Href: "/refusals"}}
	if source, _, both := strings.Cut(q, "/"); both {
		b.Links = append(b.Links, link{Text: "Events of " + source, Href: "/events?" + url.Values{"source": {source}}.Encode()})
	}
	return &page{Title: "Not found", Blocks: []block{b}}
}
