package inbox

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/internal/row"
)

// ErrReference is returned for a reference that can name nothing of its kind.
var ErrReference = errors.New("neither an id, the beginning of one, source/event-id nor a sender's id")

// ErrAmbiguousReference is what an [AmbiguousError] is.
var ErrAmbiguousReference = errors.New("several answer to it")

// Kind is a kind of thing that people refer to.
type Kind string

// The kinds. An event is named by its id, as source/event-id, by the sender's id alone, or by the beginning of its id;
// an effect in the same ways, by its own id or by its event, and by the idempotency key or the Message-ID of an attempt; a dead
// letter as an effect or as an event. The others have ids only.
const (
	KindEvent        Kind = "event"
	KindEffect       Kind = "effect"
	KindDeadLetter   Kind = "dead letter"
	KindRefusal      Kind = "refusal"
	KindConflict     Kind = "conflict"
	KindReplay       Kind = "replay"
	KindAgentSession Kind = "session"
	KindAuditEntry   Kind = "audit entry"
	KindSuppression  Kind = "suppression"
)

// minPrefix is how many digits of an id name it: 6 are made in four hours, 8 in a minute, 12 in a millisecond.
const minPrefix = 6

// maxCandidates is how many candidates are named, and maxInspected how many ids with one beginning are looked at for
// those of a tenant.
const (
	maxCandidates = 5
	maxInspected  = 1000
)

// Candidate is one of several things that answer to a reference.
type Candidate struct {
	ID ID `json:"id"`
	// Name is how a person knows it: source/event-id, and behind it the route of an effect.
	Name string `json:"name"`
}

// AmbiguousError is returned for a reference to which more than one thing answers: nothing chooses between them.
type AmbiguousError struct {
	Reference string
	Kind      Kind
	// Candidates are the newest of them, at most 5; More says that there are others.
	Candidates []Candidate
	More       bool
}

// Error implements error.
func (e *AmbiguousError) Error() string {
	var names []string
	for _, c := range e.Candidates {
		names = append(names, strings.TrimSuffix(c.ID.String()+" ("+c.Name+")", " ()"))
	}
	if e.More {
		names = append(names, "and others")
	}
	return fmt.Sprintf("%q is the reference of more than one %s: use the whole id of one: %s", e.Reference, e.Kind, strings.Join(names, ", "))
}

// Is makes an AmbiguousError an [ErrAmbiguousReference].
func (e *AmbiguousError) Is(target error) bool { return target == ErrAmbiguousReference }

// found is a candidate with the tenant that it belongs to.
type foundReference struct {
	id           ID
	name, tenant string
}

// Each gives the ids from $1 to $2, newest first, with the names that people know and the tenants.
const (
	eventReferences = `
SELECT v.id, s.name || '/' || v.event_id, coalesce(v.tenant, s.tenant)
FROM inbox_event v JOIN source s ON s.id = v.source_id`
	effectReferences = `
SELECT e.id, s.name || '/' || v.event_id || ' ' || r.name, coalesce(v.tenant, s.tenant)
FROM effect e JOIN route r ON r.id = e.route_id JOIN inbox_event v ON v.id = e.event_id JOIN source s ON s.id = v.source_id`
	refusalReferences = `
SELECT o.id, s.name || ' ' || o.cause, s.tenant FROM refusal o JOIN source s ON s.id = o.source_id`
	conflictReferences = `
SELECT o.id, s.name || '/' || v.event_id, coalesce(v.tenant, s.tenant)
FROM conflict o JOIN inbox_event v ON v.id = o.event_id JOIN source s ON s.id = o.source_id`
	replayReferences       = `SELECT o.id, o.state || ' by ' || o.actor, coalesce(o.scope->>'tenant', '') FROM replay o`
	agentSessionReferences = `SELECT o.id, s.name || ' ' || o.run, s.tenant FROM agent_session o JOIN source s ON s.id = o.source_id`
	auditReferences        = `SELECT o.id, o.action || ' ' || o.object, '' FROM audit o`
	suppressionReferences  = `SELECT o.id, o.reason, '' FROM suppression o`
)

// Find gives the id of what a reference names. A whole id names that and nothing else, and source/event-id that event,
// so that no sender can choose an event id that takes another one's name. Everything else answers if it is the sender's
// id of an event, of whatever source, the beginning of an id with at least 6 digits, or, of effects, the idempotency key or the
// Message-ID of an attempt. It returns [ErrNotFound],
// [ErrReference], or an [AmbiguousError] with the candidates.
func (l *Lister) Find(ctx context.Context, kind Kind, ref string) (ID, error) {
	found, more, err := l.find(ctx, kind, ref)
	switch {
	case err != nil:
		return ID{}, fmt.Errorf("finding %s %q: %w", kind, ref, err)
	case len(found) == 0 && !more && (kind == KindEffect || kind == KindDeadLetter) && WhyNoKey(ref) != "":
		return ID{}, fmt.Errorf("%s %s: %w: %s", kind, ref, ErrNotFound, WhyNoKey(ref))
	case len(found) == 0 && !more:
		return ID{}, fmt.Errorf("%s %s: %w", kind, ref, ErrNotFound)
	case len(found) == 1 && !more:
		return found[0].id, nil
	}
	out := &AmbiguousError{Reference: ref, Kind: kind, More: more || len(found) > maxCandidates}
	for _, f := range found[:min(len(found), maxCandidates)] {
		out.Candidates = append(out.Candidates, Candidate{ID: f.id, Name: f.name})
	}
	return ID{}, out
}

func (l *Lister) find(ctx context.Context, kind Kind, ref string) (found []foundReference, more bool, err error) {
	if ref == "" {
		return nil, false, ErrReference
	}
	if id, err := ParseID(ref); err == nil {
		found, _, err = l.findBetween(ctx, kind, id, id)
		if err != nil || len(found) > 0 {
			return found, false, err
		}
	}
	named := kind == KindEvent || kind == KindEffect || kind == KindDeadLetter
	if source, eventID, ok := strings.Cut(ref, "/"); ok && named && source != "" && eventID != "" {
		found, err = l.findBySender(ctx, kind, source, eventID)
		if err != nil || len(found) > 0 {
			return found, false, err
		}
	}
	if named {
		if found, err = l.findBySender(ctx, kind, "", ref); err != nil {
			return nil, false, err
		}
	}
	if digest, ok := keyDigest(ref); ok && (kind == KindEffect || kind == KindDeadLetter) {
		keyed, more, err := l.findByKey(ctx, digest)
		return append(found, keyed...), more, err
	}
	first, last, ok := prefixRange(ref)
	if !ok {
		if !named {
			return nil, false, ErrReference
		}
		return found, false, nil
	}
	begin, more, err := l.findBetween(ctx, kind, first, last)
	return append(found, begin...), more, err
}

// prefixRange gives the first and the last id that begin with the digits of ref, with or without dashes where a uuid has
// them.
func prefixRange(ref string) (first, last ID, ok bool) {
	const digits = 32
	var plain strings.Builder
	for i, c := range ref {
		if c == '-' && (i == 8 || i == 13 || i == 18 || i == 23) {
			continue
		}
		plain.WriteRune(c)
	}
	text := plain.String()
	if len(text) < minPrefix || len(text) > digits {
		return first, last, false
	}
	low, err := hex.DecodeString(text + strings.Repeat("0", digits-len(text)))
	if err != nil {
		return first, last, false
	}
	high, err := hex.DecodeString(text + strings.Repeat("f", digits-len(text)))
	if err != nil {
		return first, last, false
	}
	return ID(low), ID(high), true
}

// findBetween gives what has an id between two of them, newest first, and whether there may be more.
func (l *Lister) findBetween(ctx context.Context, kind Kind, first, last ID) (found []foundReference, more bool, err error) {
	limit := maxCandidates + 1
	if l.tenant != "" {
		limit = maxInspected
	}
	var s row.Statement
	switch kind {
	case KindEvent:
		s.Add(eventReferences+` WHERE v.id BETWEEN ? AND ? ORDER BY v.id DESC LIMIT ?`, first, last, limit)
	case KindEffect:
		s.Add(effectReferences+` WHERE e.id BETWEEN ? AND ? ORDER BY e.id DESC LIMIT ?`, first, last, limit)
	case KindDeadLetter:
		effects, more1, err := l.findBetween(ctx, KindEffect, first, last)
		if err != nil {
			return nil, false, err
		}
		events, more2, err := l.findBetween(ctx, KindEvent, first, last)
		return append(effects, events...), more1 || more2, err
	case KindRefusal:
		s.Add(refusalReferences)
	case KindConflict:
		s.Add(conflictReferences)
	case KindReplay:
		s.Add(replayReferences)
	case KindAgentSession:
		s.Add(agentSessionReferences)
	case KindAuditEntry:
		s.Add(auditReferences)
	case KindSuppression:
		s.Add(suppressionReferences)
	default:
		return nil, false, ErrReference
	}
	if kind != KindEvent && kind != KindEffect {
		s.Add(` WHERE o.id BETWEEN ? AND ? ORDER BY o.id DESC LIMIT ?`, first, last, limit)
	}
	rows, err := collect(ctx, l, &s, scanReference)
	return l.ours(rows), l.tenant != "" && len(rows) == limit, err
}

// findBySender gives what an event id of a source names; an empty source is all of them.
func (l *Lister) findBySender(ctx context.Context, kind Kind, source, eventID string) ([]foundReference, error) {
	var s row.Statement
	if kind == KindEvent {
		s.Add(eventReferences + ` WHERE v.id = ANY (`)
		bySender(&s, source, eventID)
		s.Add(`) ORDER BY v.received_at DESC`) // by the id, the planner may walk all events
	} else {
		s.Add(effectReferences + ` WHERE e.event_id = ANY (`)
		bySender(&s, source, eventID)
		s.Add(`) ORDER BY e.event_id DESC, e.route_id, e.item LIMIT ?`, maxInspected)
	}
	rows, err := collect(ctx, l, &s, scanReference)
	found := l.ours(rows)
	if err == nil && kind == KindDeadLetter && len(found) == 0 {
		return l.findBySender(ctx, KindEvent, source, eventID)
	}
	return found, err
}

func scanReference(r pgx.CollectableRow) (f foundReference, err error) {
	err = r.Scan(&f.id, &f.name, &f.tenant)
	return f, err
}

// ours are those that the Lister's tenant may see.
func (l *Lister) ours(all []foundReference) (found []foundReference) {
	for _, f := range all {
		if l.tenant == "" || f.tenant == l.tenant {
			found = append(found, f)
		}
	}
	return found
}
