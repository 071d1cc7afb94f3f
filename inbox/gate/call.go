package gate

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// A call of an operation may be refused because of another call: one that it follows, or one that had the same
// arguments a moment ago. The rows that say so are written with the call's own event, and constraints decide between
// two calls that come at once. A refused call therefore fails the transaction of its group, which is run again
// without it. Groups without such calls write none of these rows.

// errSameParent means that two calls of one group follow the same call: one statement would not see both.
var errSameParent = errors.New("two calls of a group follow the same call")

// Replays and decisions of people lock an event before they move its effects out of a state at rest. While the parent
// is locked here, its result stays what it is.
const lockParents = `SELECT FROM inbox_event WHERE id = ANY ($1::uuid[]) ORDER BY id FOR NO KEY UPDATE`

// A parent without a settled result, with a follower of the other kind, or with nothing left that says what it did has
// no status here, which the column refuses. So has one with the same follower whose hash is stored in the other form, which the
// constraint does not see: from before there was a keyring, or by a process that has one while this one has none yet. The latter
// cannot compare the hashes, so it takes every such follower for the same.
var insertFollows = `
INSERT INTO operation_follow (child, parent, kind, intent_hash, parent_status)
SELECT k.child, k.parent, k.kind, k.intent_hash, (
    SELECT d.status FROM operation_result d
    WHERE d.event_id = k.parent AND d.status <> 'indeterminate'
        AND NOT EXISTS (SELECT FROM operation_follow f WHERE f.parent = k.parent AND (f.kind <> k.kind OR f.intent_hash = k.former_hash
            OR octet_length(f.intent_hash) > octet_length(k.intent_hash)))
        AND (k.kind = 'instead_of' OR EXISTS (SELECT FROM effect e WHERE e.event_id = k.parent)))
FROM unnest(` + followColumns.Arrays() + `) AS k (` + followColumns.Names() + `)`

var followColumns = row.ColumnsFrom(1,
	row.UUID("child", func(l *keyEntry) inbox.ID { return l.id }),
	row.UUID("parent", func(l *keyEntry) inbox.ID { return l.event().Follows.Parent }),
	row.Text("kind", func(l *keyEntry) inbox.FollowKind { return l.event().Follows.Kind }),
	row.Bytes("intent_hash", func(l *keyEntry) []byte { return l.delivery.secret.StoredHash(l.event().Follows.Intent[:]) }),
	row.Bytes("former_hash", func(l *keyEntry) []byte { return l.delivery.secret.FormerHash(l.event().Follows.Intent[:]) }),
)

// A note makes room for a call when it has expired, and for the call that follows the one it is about. Each call also removes a
// few expired notes of other calls, so that the table has no more than the calls of one window.
var deleteRecentCalls = `
WITH expired AS (
    DELETE FROM recent_call
    WHERE (source_id, call_hash) IN (
        SELECT x.source_id, x.call_hash FROM recent_call x WHERE x.expires_at < now() ORDER BY x.expires_at LIMIT 10 FOR UPDATE SKIP LOCKED))
DELETE FROM recent_call r
USING unnest(` + recentColumns.Arrays() + `) AS k (` + recentColumns.Names() + `)
WHERE r.source_id = k.source_id AND r.call_hash IN (k.call_hash, k.former_hash)
    AND (r.expires_at < now() OR r.event_id = k.event_id OR r.event_id = k.parent_key)`

// A note from before there was a keyring, of a call with the same arguments, gets the form of today, so that the call meets it.
var keyRecentCalls = `
UPDATE recent_call r SET call_hash = k.call_hash
FROM unnest(` + recentColumns.Arrays() + `) AS k (` + recentColumns.Names() + `)
WHERE r.source_id = k.source_id AND r.call_hash = k.former_hash
    AND NOT EXISTS (SELECT FROM recent_call o WHERE o.source_id = k.source_id AND o.call_hash = k.call_hash)`

var insertRecentCalls = `
INSERT INTO recent_call (source_id, call_hash, event_id, expires_at)
SELECT k.source_id, k.call_hash, k.event_id, now() + k.within * interval '1 microsecond'
FROM unnest(` + recentColumns.Arrays() + `) AS k (` + recentColumns.Names() + `)`

// For calls that are recorded all the same.
const keepFirstCall = ` ON CONFLICT ON CONSTRAINT recent_call_pkey DO NOTHING`

// A call that matches the note of another call is marked, and the statement returns that other call.
var markRepeats = `
UPDATE inbox_event e SET suspected_replay = true
FROM unnest(` + recentColumns.Arrays() + `) AS k (` + recentColumns.Names() + `)
JOIN recent_call r ON r.source_id = k.source_id AND r.call_hash = k.call_hash AND r.event_id <> k.event_id
JOIN inbox_event first ON first.source_id = r.source_id AND first.event_id = r.event_id
WHERE e.id = k.id
RETURNING e.id, first.id`

var recentColumns = row.ColumnsFrom(1,
	row.UUID("id", func(l *keyEntry) inbox.ID { return l.id }),
	row.Int("source_id", func(l *keyEntry) int32 { return l.source().ID }),
	row.Bytes("call_hash", func(l *keyEntry) []byte { return l.delivery.secret.StoredHash(l.event().Recent.Hash[:]) }),
	row.Bytes("former_hash", func(l *keyEntry) []byte { return l.delivery.secret.FormerHash(l.event().Recent.Hash[:]) }),
	row.Text("event_id", func(l *keyEntry) string { return l.eventID }),
	row.Bigint("within", func(l *keyEntry) int64 { return l.event().Recent.Within.Microseconds() }),
	row.Text("parent_key", func(l *keyEntry) string {
		if follows := l.event().Follows; follows != nil {
			return follows.ParentKey
		}
		return ""
	}),
)

// dependsOnCalls reports whether another call may have the delivery refused.
func (d *delivery) dependsOnCalls() bool {
	for i := range d.admission.Events {
		if e := &d.admission.Events[i]; e.Follows != nil || e.Recent != nil {
			return true
		}
	}
	return false
}

// queueCalls queues what the new calls of a group write about other calls, and asks about them.
func queueCalls(b *pgx.Batch, group *group) error {
	var follows, refuse, flag []*keyEntry
	for _, l := range group.keyEntries {
		if !l.inserted || l.admission == inbox.AdmissionUnusable {
			continue
		}
		e := l.event()
		if e.Follows != nil {
			follows = append(follows, l)
		}
		switch {
		case e.Recent == nil:
		case e.Recent.Refuse:
			refuse = append(refuse, l)
		default:
			flag = append(flag, l)
		}
	}
	if err := queueFollows(b, group, follows); err != nil {
		return err
	}
	all := slices.Concat(refuse, flag)
	if len(all) == 0 {
		return nil
	}
	b.Queue(deleteRecentCalls, recentColumns.AppendEach(nil, sortCalls(all))...)
	if all[0].delivery.secret.Value != nil {
		b.Queue(keyRecentCalls, recentColumns.AppendEach(nil, all)...)
	}
	if len(refuse) > 0 {
		b.Queue(insertRecentCalls, recentColumns.AppendEach(nil, sortCalls(refuse))...)
	}
	if len(flag) == 0 {
		return nil
	}
	b.Queue(insertRecentCalls+keepFirstCall, recentColumns.AppendEach(nil, sortCalls(flag))...)
	b.Queue(markRepeats, recentColumns.AppendEach(nil, flag)...).Query(func(rows pgx.Rows) error {
		var id, first inbox.ID
		_, err := pgx.ForEachRow(rows, []any{&id, &first}, func() error {
			for _, l := range flag {
				if l.id == id {
					l.repeats = first
				}
			}
			return nil
		})
		return err
	})
	return nil
}

// queueFollows queues the rows of calls that follow others.
func queueFollows(b *pgx.Batch, group *group, follows []*keyEntry) error {
	if len(follows) == 0 {
		return nil
	}
	parents := make([]inbox.ID, len(follows))
	for i, l := range follows {
		parents[i] = l.event().Follows.Parent
		if slices.Contains(parents[:i], parents[i]) {
			return errSameParent
		}
	}
	if len(group.deliveries) > 1 {
		// Other events of the group wait only briefly for an event that another transaction has locked.
		b.Queue(setLockTimeout, strconv.FormatInt(min(aloneLockTimeout, group.lock).Milliseconds(), 10))
	}
	b.Queue(lockParents, parents)
	b.Queue(insertFollows, followColumns.AppendEach(nil, follows)...)
	return nil
}

// sortCalls sorts calls by what the notes about them are found by: two groups then wait for each other in one order.
func sortCalls(calls []*keyEntry) []*keyEntry {
	slices.SortFunc(calls, func(a, b *keyEntry) int {
		return cmp.Or(cmp.Compare(a.source().ID, b.source().ID), bytes.Compare(a.event().Recent.Hash[:], b.event().Recent.Hash[:]))
	})
	return calls
}

// refusedByCall is why another call has a delivery refused; nil if the run failed over something else.
func refusedByCall(err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || pg.SeverityUnlocalized != "ERROR" {
		return nil
	}
	switch {
	case pg.Code == "23505" && pg.ConstraintName == "recent_call_pkey":
		return inbox.ErrSuspectedRepeat
	case pg.Code == "23505" && pg.ConstraintName == "operation_follow_once",
		pg.Code == "23502" && pg.TableName == "operation_follow" && pg.ColumnName == "parent_status":
		return inbox.ErrNotFollowed
	}
	return nil
}

// splitCalls commits the deliveries that other calls may have refused by themselves, after the others, which stay
// together. It returns false if it has nothing to take apart.
func (g *Gate) splitCalls(deliveries []*delivery) bool {
	calls := slices.DeleteFunc(slices.Clone(deliveries), func(d *delivery) bool { return !d.dependsOnCalls() })
	if len(calls) == 0 || len(calls) == len(deliveries) {
		return false
	}
	g.commitOrSplit(slices.DeleteFunc(deliveries, (*delivery).dependsOnCalls))
	g.commitOrSplit(calls)
	return true
}

// refuseByCall answers a delivery that another call has refused; false if the run failed over something else.
func (g *Gate) refuseByCall(d *delivery, err error) bool {
	why := refusedByCall(err)
	if why == nil {
		return false
	}
	d.lane.health.succeeded()
	d.answer(why)
	return true
}
