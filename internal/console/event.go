package console

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/control"
)

const (
	// shownEffects is how many effects of an event are shown with their attempts.
	shownEffects = 20

	// shownRows bounds the short lists on a page about one object.
	shownRows = 20
)

// eventView has the data of the page of an event.
type eventView struct {
	event     *read.EventDetail
	effects   []*control.Effect // the first shownEffects of them
	conflicts []read.ConflictRow
	audit     []read.AuditRow
	payload   *control.Payload // nil if it is not kept
	missing   string           // why there is no payload
}

// showEvent shows one event: how it arrived, what was done with it, and its content.
func showEvent(r *request) (*page, error) {
	id, err := r.id()
	if err != nil {
		return nil, err
	}
	v := eventView{}
	if v.event, err = call(r, &control.ShowEvent, control.EventReference{Ref: id.String()}); err != nil {
		return nil, err
	}
	for i, effect := range v.event.Effects {
		if i == shownEffects {
			break
		}
		detail, err := call(r, &control.ShowEffect, control.IDRequest{ID: effect.ID})
		if err != nil {
			return nil, err
		}
		v.effects = append(v.effects, detail)
	}
	if v.event.Conflicts > 0 {
		found, err := call(r, &control.ListConflicts, control.ListConflictsRequest{PageRequest: control.PageRequest{Limit: shownRows}, ConflictFilter: control.ConflictFilter{Event: id}})
		if err != nil {
			return nil, err
		}
		v.conflicts = found.Data
	}
	audit, err := call(r, &control.ListAudit, control.ListAuditRequest{PageRequest: control.PageRequest{Limit: shownRows}, Object: "event/" + id.String()})
	if err != nil {
		return nil, err
	}
	v.audit = audit.Data
	if v.payload, v.missing, err = r.payload("event", id); err != nil {
		return nil, err
	}
	return eventPage(r, &v), nil
}

func eventPage(r *request, v *eventView) *page {
	e := v.event
	p := &page{
		Title: e.EventID, Lead: join(e.Type, "from "+e.Source, e.Tenant),
		Back: &link{Text: "Events of " + e.Source, Href: "/events?" + url.Values{"source": {e.Source}}.Encode()},
	}
	if e.Erased() {
		p.Blocks = append(p.Blocks, block{Notice: &notice{Kind: "info", Text: "The content of this event was erased."}})
	}
	if e.SuspectedReplay {
		p.Blocks = append(p.Blocks, block{Notice: &notice{
			Kind: "warn", Text: "The same body was recorded under another id.", Detail: "Somebody may have sent a recorded delivery again.",
		}})
	}
	if e.Shadow {
		p.Blocks = append(p.Blocks, block{Notice: &notice{
			Kind: "info", Text: "This event was recorded in shadow mode: its effects are evaluated, and none of them is carried out.",
			Detail: "A replay that is planned to carry out what shadow mode skipped can still do so.",
		}})
	}
	switch {
	case e.Buffered():
		p.Blocks = append(p.Blocks, block{Notice: &notice{Kind: "info", Text: "This event was buffered: it was recorded later than its delivery was acknowledged.", Detail: "The database could not record it when it arrived."}})
	case e.Reconciled():
		p.Blocks = append(p.Blocks, block{Notice: &notice{Kind: "info", Text: "This event was not delivered: Oncegate read it from the sender's list of events.", Detail: "Its payload is the list's, which may differ from that of a delivery."}})
	case e.AdmissionDetail != "":
		p.Blocks = append(p.Blocks, block{Notice: &notice{Kind: "bad", Text: "This event is " + strings.ReplaceAll(e.Admission, "_", " ") + ".", Detail: e.AdmissionDetail}})
	}
	p.Blocks = append(p.Blocks, eventRemedies(r, v.effects)...)
	p.Blocks = append(p.Blocks,
		block{Facts: facts(
			is("State", effectMarks(e.EventRow)),
			is("Received", instant(e.ReceivedAt)),
			is("Occurred", instantOf(e.OccurredAt)),
			is("Deliveries", cell{Text: deliveries(e)}),
			is("Provider", linked(e.Provider, "/providers/"+url.PathEscape(e.Provider))),
			is("Labels", labelCells(e.Labels)...),
			is("Our id", code(e.ID.String())),
			is("Trace", code(e.TraceID)),
		)},
		block{ID: "timeline", Title: "What happened", Story: eventStory(v)},
	)
	if more := e.EffectsOmitted + len(e.Effects) - len(v.effects); more > 0 {
		p.Blocks = append(p.Blocks, block{Links: []link{{Text: count(more, "more effect", "more effects"), Href: to("/effects", "source", e.Source, "event_id", e.EventID)}}})
	}
	if run := runOf(e); run != "" {
		p.Blocks = append(p.Blocks, block{Links: []link{{Text: "Compare run " + run + " with today's configuration", Href: to("/runs", "source", e.Source, "run", run)}}})
	}
	if len(e.Sequence) > 0 {
		p.Blocks = append(p.Blocks, sequenceBlock(r, e))
	}
	if len(v.conflicts) > 0 {
		p.Blocks = append(p.Blocks, block{ID: "conflicts", Title: "Other payloads under this id", Table: conflictTable(r, read.Page[read.ConflictRow]{Data: v.conflicts}, "")})
	}
	p.Blocks = append(p.Blocks, payloadBlocks(r, v.payload, v.missing, "/events/"+e.ID.String())...)
	p.Blocks = append(p.Blocks,
		block{Title: "Compare", Text: "See in what the payload of another event differs.", Filter: &filter{
			Action: "/compare", Button: "Compare", Hidden: []field{{Name: "first", Value: e.ID.String(), Kind: "hidden"}},
			Fields: []field{{Name: "second", Label: "Other event", Hint: "our id, source/event-id or the sender's id"}},
		}},
		eventActions(r, e),
		block{ID: "copy", Title: "As a command", Code: "oncegate events show " + e.ID.String()},
		block{Text: "With curl, to an endpoint of your own:", Code: eventCurl(r, v)},
	)
	return p
}

// duplicates returns how many deliveries repeated the payload of the event.
func duplicates(e *read.EventDetail) int { return e.Deliveries - 1 - e.Conflicts }

// deliveries returns how often the event was delivered.
func deliveries(e *read.EventDetail) string {
	text := count(e.Deliveries, "delivery", "deliveries")
	if n := duplicates(e); n > 0 {
		text += ", of which " + count(n, "duplicate was blocked", "duplicates were blocked")
	}
	return text
}

// bodyText describes the body of an event by its length and its hash, as far as the access may see them.
func bodyText(e *read.EventDetail) string {
	text := lengthText(e.BodyLength, e.PayloadHidden)
	if sum := hashText(e.BodySHA256); sum != "" {
		text += ", " + sum
	}
	return text
}

// differsIn says in what the last conflict of an event differs from it.
func differsIn(e *read.EventDetail) string {
	if e.PayloadHidden {
		return ""
	}
	return "Differs in " + or(strings.Join(e.ConflictPaths, ", "), "what is not JSON")
}

// eventStory returns the timeline of an event: its deliveries, its effects with their attempts, and the
// decisions of operators.
func eventStory(v *eventView) []moment {
	e := v.event
	story := []moment{{At: e.ReceivedAt, Title: "Received and recorded", State: e.Admission, Detail: bodyText(e)}}
	if n := duplicates(e); n > 0 {
		again := moment{Title: "Delivered again", State: "duplicate", Detail: count(n, "duplicate was", "duplicates were") + " blocked"}
		// Only the last delivery has a time, and a conflict may have come after the last duplicate.
		if e.LastDeliveryAt != nil && (e.ConflictAt == nil || e.LastDeliveryAt.After(*e.ConflictAt)) {
			again.At, again.Detail = *e.LastDeliveryAt, "The last of "+deliveries(e)
		}
		story = append(story, again)
	}
	if e.ConflictAt != nil {
		story = append(story, moment{
			At: *e.ConflictAt, Title: "Delivered with another payload", State: "conflict", Href: "#conflicts",
			Detail: differsIn(e),
		})
	}
	for _, effect := range v.effects {
		story = append(story, effectStory(effect)...)
	}
	audit := slices.Clone(v.audit)
	slices.Reverse(audit) // oldest first
	for _, entry := range audit {
		story = append(story, auditMoment(entry))
	}
	return story
}

// effectStory returns the steps of an effect and its attempts.
func effectStory(e *control.Effect) []moment {
	reason, code := e.Reason, e.Code
	if n := len(e.AttemptRows); n > 0 { // the last attempt has the same reason
		last := e.AttemptRows[n-1]
		if reason == last.Reason {
			reason = ""
		}
		if code == last.Code {
			code = ""
		}
	}
	m := moment{Title: e.Route + " → " + e.Target, Href: effectLink(e.ID), State: e.State, Level: 1, Detail: join(reasonText(reason), code)}
	if e.Item > 0 {
		m.Title += fmt.Sprintf(", item %d", e.Item)
	}
	switch {
	case e.FinishedAt != nil:
		m.At = *e.FinishedAt
	case e.NextAt != nil:
		m.At = *e.NextAt
		m.Detail = join(m.Detail, "next attempt")
	}
	return append([]moment{m}, attemptStory(e)...)
}

// attemptStory returns the attempts of an effect.
func attemptStory(e *control.Effect) []moment {
	var story []moment
	for _, a := range e.AttemptRows {
		trigger := a.Trigger
		if a.Attempt == 1 && trigger == "initial" {
			trigger = ""
		}
		m := moment{
			At: a.StartedAt, Title: fmt.Sprintf("Attempt %d", a.Attempt), State: a.Outcome, Level: 2,
			Detail: join(a.Code, reasonText(a.Reason), "took "+milliseconds(a.FinishedAt.Sub(a.StartedAt)), "on "+a.Node, trigger), Said: strings.TrimSpace(a.Excerpt),
		}
		if a.Recognised {
			m.Detail = join(m.Detail, "the target knew the key")
		}
		if e.PayloadHidden && a.Excerpt == "" {
			m.Detail = join(m.Detail, "the answer needs the scope read-payload")
		}
		story = append(story, m)
	}
	return story
}

// milliseconds formats how long a request took.
func milliseconds(d time.Duration) string {
	if d < 10*time.Second {
		return groupDigits(d.Milliseconds()) + " ms"
	}
	return roughly(d)
}

// reasonText returns a stored reason in words.
func reasonText(reason string) string { return strings.ReplaceAll(reason, "_", " ") }

// eventActions returns the actions for an event.
func eventActions(r *request, e *read.EventDetail) block {
	b := block{ID: "actions", Title: "Actions"}
	if !r.may(control.Operate) {
		b.Text = "Your access permits no actions."
		return b
	}
	b.Links = append(b.Links, link{Text: "Plan a replay of this event", Href: to("/replays/new", "ids", e.ID.String())})
	if dead := e.Admission == "unusable" || e.Admission == "beyond_retention"; dead && len(e.Effects) == 0 {
		b.Forms = append(b.Forms, form{
			Action: "/effects/" + e.ID.String() + "/discard", Title: "Discard it", Text: "It is a dead letter itself: nothing could be done for it.", Button: "Discard", Closed: true, Danger: true,
			Fields: []field{hidden("of", "event"), reasonField(), typedField("discard")},
		})
	}
	if r.may(control.Admin) && !e.Erased() {
		b.Forms = append(b.Forms, form{
			Action: "/events/" + e.ID.String() + "/erase", Title: "Erase its content", Text: "The payload, the answers of targets and what was sent go for good. The key stays, and still recognises duplicates.",
			Button: "Erase", Closed: true, Danger: true, Fields: []field{reasonField(), typedField("erase")},
		})
	}
	return b
}

// eraseEvent erases the content of an event.
func eraseEvent(r *request) (*page, error) {
	id, err := r.id()
	if err != nil {
		return nil, err
	}
	why, err := r.why("erase")
	if err != nil {
		return nil, err
	}
	if _, err := call(r, &control.EraseEvent, control.EraseEventRequest{Explained: why, Ref: id.String()}); err != nil {
		return nil, err
	}
	return r.seeOther(eventLink(id), "erased")
}

// eventCurl returns a command that sends the body of an event to an address of the user.
func eventCurl(r *request, v *eventView) string {
	kind := "application/octet-stream"
	if v.payload != nil {
		for _, h := range v.payload.Headers {
			if strings.EqualFold(h.Name, "Content-Type") && plainContentType(h.Value) {
				kind = h.Value
			}
		}
	}
	return fmt.Sprintf("curl -sS -H \"Authorization: Bearer $ONCEGATE_TOKEN\" %s/api/v1/events/%s/body |\n  curl -sS -H 'Content-Type: %s' --data-binary @- http://localhost:3000/",
		r.origin(), v.event.ID, kind)
}

// plainContentType reports whether a header's value can be part of a command without quoting.
func plainContentType(s string) bool {
	return s != "" && len(s) < 128 && !strings.ContainsFunc(s, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("/+-.;= ", c)
	})
}

// origin returns the address of this server as the browser knows it. It is safe to put into a command.
func (r *request) origin() string {
	scheme := "http"
	if r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https" {
		scheme = "https"
	}
	host := r.Host
	if host == "" || strings.ContainsFunc(host, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune(".-:[]", c)
	}) {
		host = "127.0.0.1:8081"
	}
	return scheme + "://" + host
}
