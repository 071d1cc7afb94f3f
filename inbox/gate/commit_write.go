package gate

import (
	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
)

// recorded is the condition under which a statement of the gate writes what belongs to an event: the event has our own
// id, so that this transaction has inserted it. The subquery cannot become a join, whose plan would depend on the size
// of the table.
const recorded = `(SELECT true FROM inbox_event e WHERE e.id = k.event_id)`

// insertBodies writes one row a delivery, for those with at least one new event. A day without a partition raises 23514; the
// partition is then made, and the group runs again.
var insertBodies = newStatement(bodyRows, func(rows string) string {
	return `
INSERT INTO inbox_body (` + bodyColumns.Names() + `)
SELECT ` + bodyColumns.Names() + `
FROM ` + rows + `
WHERE ` + recorded
})

// insertEffectsOf is the statement that inserts the effects of unordered routes. jobID is the expression that takes the id
// of a new job.
func insertEffectsOf(jobID string) statement {
	return newStatement(effectColumns, func(rows string) string {
		return `
INSERT INTO effect (` + effectColumns.Names() + `, job_id, state, next_at)
SELECT k.*, ` + jobID + `, 'pending', now()
FROM ` + rows + `
WHERE ` + recorded
	})
}

// Once a key and group. SKIP LOCKED, because the count is only for people, and a duplicate must not wait for a
// row that another transaction has locked.
const countDeliveries = `
UPDATE inbox_event e SET deliveries = e.deliveries + k.n, last_delivery_at = now()
FROM (SELECT i.id, u.n FROM unnest($1::uuid[], $2::int[]) AS u (id, n) JOIN inbox_event i ON i.id = u.id
      FOR NO KEY UPDATE OF i SKIP LOCKED) AS k
WHERE e.id = k.id`

// queueFound queues what belongs to the new events, the counts of the others, and the wake-ups of those whose dead effects
// get new attempts. It reports whether anything is certainly written, and whether that includes work for the workers.
func (g *Gate) queueFound(b *pgx.Batch, group *group) (wrote, woke bool) {
	var (
		fresh  []*keyEntry
		again  bumps
		rearms []inbox.Wake
	)
	for _, l := range group.keyEntries {
		switch {
		case l.inserted:
			fresh = append(fresh, l)
		case !l.insertedEarlier:
			again.add(l.row, 1+len(l.followers))
		}
		if l.rearm {
			rearms = append(rearms, inbox.Wake{Kind: inbox.WakeRearm, ID: l.row})
		}
	}
	woke = g.queueNew(b, group, fresh)
	g.cfg.Enqueuer.InsertTx(b, rearms)
	if len(again.ids) > 0 {
		b.Queue(countDeliveries, again.ids, again.counts)
	}
	return len(fresh)+len(rearms) > 0, woke || len(rearms) > 0
}

// queueNew queues the bodies, effects, jobs and labels of events that are new, or that are new if this transaction inserts
// them. It reports whether there is work for the workers.
func (g *Gate) queueNew(b *pgx.Batch, group *group, events []*keyEntry) (woke bool) {
	var (
		bodies           []newBody
		effects, ordered []newEffect
		wakes            []inbox.ID
		labels           []newLabel
	)
	for _, l := range events {
		if !l.delivery.stored {
			bodies = addBody(bodies, l)
		}
		for _, label := range l.labels {
			labels = append(labels, newLabel{label, l.id})
		}
		for i := range l.effects {
			e := newEffect{effectRow: &l.effects[i], event: l.id, shadow: l.source().Shadow, position: l.position}
			if e.pending() {
				wakes = append(wakes, e.id)
			}
			if e.place != nil {
				ordered = append(ordered, e)
			} else {
				effects = append(effects, e)
			}
		}
	}
	if len(bodies) > 0 {
		b.Queue(insertBodies.of(len(bodies)), bodyRows.Args(bodies)...)
	}
	if len(effects) > 0 {
		b.Queue(g.insertEffects.of(len(effects)), effectColumns.Args(effects)...)
	}
	g.queueOrdered(b, ordered)
	if len(wakes) > 0 { // after the effects, whose rows have the ids of the jobs
		g.cfg.Enqueuer.InsertRecordedTx(b, wakes)
	}
	if len(labels) > 0 {
		b.Queue(insertLabels, labelColumns.Append([]any{g.cfg.Installation.ID, labels[0].event}, labels)...)
		group.labelled = true
	}
	return len(wakes) > 0
}
