package read

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// ErrReference is returned for a reference that can name nothing of its kind.
var ErrReference = errors.New("neither an id, the beginning of one, source/event-id nor a sender's id")

// ErrAmbiguousReference is matched by every [AmbiguousError].
var ErrAmbiguousReference = errors.New("several answer to it")

// Kind is a kind of thing that people refer to.
type Kind string

// The kinds. You can name an event by its id, as source/event-id, by the sender's id alone, or by the beginning of its id. You can
// name an effect in the same ways, with its own id or its event's, and by the idempotency key or the Message-ID of an attempt. You
// can name a dead letter like an effect or an event. The others have ids only.
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

// minPrefix is the least number of digits with which you can name an id. The first 6 digits change about every four hours,
// the first 8 about every minute, and the first 12 every millisecond.
const minPrefix = 6

// maxCandidates is how many candidates an error lists. maxInspected is how many rows a search reads for a tenant, for a key
// or for the sender's id of an effect.
const (
	maxCandidates = 5
	maxInspected  = 1000
)

// Candidate is one of several things that answer to a reference.
type Candidate struct {
	ID inbox.ID `json:"id"`
	// Name is the name that people know: source/event-id for an event, followed by the route for an effect.
	Name string `json:"name"`
}

// AmbiguousError is returned for a reference that matches more than one thing. Oncegate never chooses one of them.
type AmbiguousError struct {
	Reference string
	Kind      Kind
	// Candidates are at most 5 of them. More says that there are others.
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

// foundReference is a candidate with its tenant.
type foundReference struct {
	id           inbox.ID
	name, tenant string
}

// These statements return ids with the names that people know, and with tenants.
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

// Find returns the id of the thing that a reference names. A whole id always names the thing with that id, and source/event-id
// that event, so that a sender cannot choose an event id to hide another event. Any other reference is compared with
// the senders' ids of all sources, with the beginnings of ids (at least 6 digits) and, for effects, with the idempotency keys and
// Message-IDs of attempts. Find returns [inbox.ErrNotFound], [ErrReference], or an [AmbiguousError] with the candidates.
func (l *Lister) Find(ctx context.Context, kind Kind, ref string) (inbox.ID, error) {
	found, more, err := l.find(ctx, kind, ref)
	switch {
	case err != nil:
		return inbox.ID{}, fmt.Errorf("finding %s %q: %w", kind, ref, err)
	case len(found) == 0 && !more && (kind == KindEffect || kind == KindDeadLetter) && WhyNoKey(ref) != "":
		return inbox.ID{}, fmt.Errorf("%s %s: %w: %s", kind, ref, inbox.ErrNotFound, WhyNoKey(ref))
	case len(found) == 0 && !more:
		return inbox.ID{}, fmt.Errorf("%s %s: %w", kind, ref, inbox.ErrNotFound)
	case len(found) == 1 && !more:
		return found[0].id, nil
	}
	out := &AmbiguousError{Reference: ref, Kind: kind, More: more || len(found) > maxCandidates}
	for _, f := range found[:min(len(found), maxCandidates)] {
		out.Candidates = append(out.Candidates, Candidate{ID: f.id, Name: f.name})
	}
	return inbox.ID{}, out
}

func (l *Lister) find(ctx context.Context, kind Kind, ref string) (found []foundReference, more bool, err error) {
	if ref == "" {
		return nil, false, ErrReference
	}
	if id, err := inbox.ParseID(ref); err == nil {
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

// prefixRange returns the first and the last id that begin with the digits of ref. It ignores dashes at their positions in a
// uuid.
func prefixRange(ref string) (first, last inbox.ID, ok bool) {
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
	return inbox.ID(low), inbox.ID(high), true
}

// findBetween returns the things with ids from first to last, newest first. more says that a tenant may have others, which were
// not read.
func (l *Lister) findBetween(ctx context.Context, kind Kind, first, last inbox.ID) (found []foundReference, more bool, err error) {
	limit := maxCandidates + 1
	if l.tenant != "" {
		limit = maxInspected
	}
	var s row.Statement
	switch kind {
	case KindEvent:
		s.Add(eventReferences+` WHERE v.id BETWEEN ? AND ? AND `+notCopied+` ORDER BY v.id DESC LIMIT ?`, first, last, limit)
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

// findBySender returns the things that an event id of a source names. An empty source means all sources.
func (l *Lister) findBySender(ctx context.Context, kind Kind, source, eventID string) ([]foundReference, error) {
	var s row.Statement
	if kind == KindEvent {
		s.Add(eventReferences + ` WHERE v.id = ANY (`)
		bySender(&s, source, eventID)
		s.Add(`) AND ` + notCopied + ` ORDER BY v.received_at DESC`) // by the id, the planner may walk all events
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

// ours returns those that the Lister's tenant may see.
func (l *Lister) ours(all []foundReference) (found []foundReference) {
	for _, f := range all {
		if l.tenant == "" || f.tenant == l.tenant {
			found = append(found, f)
		}
	}
	return found
}
