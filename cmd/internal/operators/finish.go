package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncegate/oncegate/inbox"
)

// patience is how long everything may take to come to rest.
const patience = 90 * time.Second

const stillMoving = `
SELECT (SELECT count(*) FROM effect WHERE state IN ('pending', 'claimed', 'retry')) + (SELECT count(*) FROM replay WHERE state = 'running')
    + (SELECT count(*) FROM effect e LEFT JOIN stream s ON s.route_id = e.route_id AND s.key_hash = e.sequence_key_hash
       WHERE e.state = 'held' AND ` + heldByNothing + `)`

const heldByNothing = `
coalesce(e.reason, '') NOT IN ('sequence_key_missing', 'sequence_number_missing', 'sequence_number_taken')
AND s.blocked_by IS NULL AND s.gap_since IS NULL`

// finish lets everything come to rest with the whole configuration, and compares the books.
func (c *campaign) finish(ctx context.Context) error {
	c.sink.quiet()
	for _, s := range c.servers {
		if err := c.restart(ctx, s, variants[0], false); err != nil {
			return err
		}
	}
	for began := time.Now(); ; {
		var left int
		if err := c.db.QueryRow(ctx, stillMoving).Scan(&left); err != nil {
			return fmt.Errorf("waiting for rest: %w", err)
		}
		if left == 0 || time.Since(began) > patience {
			break // the check says what is left
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := c.settle(ctx); err != nil {
		return err
	}
	for _, check := range []func(context.Context) error{c.books, c.acknowledged, c.endedReplays, c.stop, c.logs, c.backlogs, c.opened, c.pruned, c.resealed} {
		if err := check(ctx); err != nil {
			return err
		}
	}
	return c.leaks(ctx, true)
}

func (c *campaign) stop(context.Context) error {
	var errs []error
	for _, s := range c.servers {
		byItself, err := s.end(false)
		if byItself {
			c.violate(violation{crashed, fmt.Sprintf("server %d ended by itself", s.number)})
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// standing is an effect as the database has it in the end.
type standing struct {
	id, state, reason string
	attempts, done    int
	tried             string // the attempts, for people
	blocked           bool   // held, and by something
}

const readStandings = `
SELECT e.id::text, e.state, coalesce(e.reason, ''),
    (SELECT count(*) FROM effect_attempt a WHERE a.effect_id = e.id),
    (SELECT count(*) FROM effect_attempt a WHERE a.effect_id = e.id AND a.outcome = 'done'),
    NOT (` + heldByNothing + `),
    coalesce((SELECT string_agg(format('%s.%s %s from %s to %s: %s %s', a.version, a.attempt, a.trigger, a.started_at, a.finished_at, a.outcome, a.reason), '; ' ORDER BY a.started_at)
        FROM effect_attempt a WHERE a.effect_id = e.id), '')
FROM effect e LEFT JOIN stream s ON s.route_id = e.route_id AND s.key_hash = e.sequence_key_hash`

// books compares effects, their attempts and what was sent.
func (c *campaign) books(ctx context.Context) error {
	rows, err := c.db.Query(ctx, readStandings)
	if err != nil {
		return fmt.Errorf("reading the books: %w", err)
	}
	states, reasons := map[string]int{}, map[string]int{}
	var s standing
	_, err = pgx.ForEachRow(rows, []any{&s.id, &s.state, &s.reason, &s.attempts, &s.done, &s.blocked, &s.tried}, func() error {
		states[s.state]++
		if s.reason != "" {
			reasons[s.state+" "+s.reason]++
		}
		h := c.histories[s.id]
		if h == nil {
			c.violate(violation{unbalanced, fmt.Sprintf("effect %s was never seen before", s.id)})
			return nil
		}
		c.violate(balance(h, &s, c.kills > 0)...)
		return nil
	})
	c.final["effects"], c.final["reasons"] = states, reasons
	if err != nil {
		return fmt.Errorf("reading the books: %w", err)
	}
	return nil
}

// balance compares one effect's end with what was sent and what people decided.
func balance(h *history, s *standing, kills bool) (out []violation) {
	add := func(kind, format string, args ...any) {
		out = append(out, violation{kind, fmt.Sprintf("%s is %s %s: %s", h.about(), s.state, s.reason, fmt.Sprintf(format, args...))})
	}
	answered := func(fit func(*request) bool) int {
		n := 0
		for _, r := range h.requests {
			if fit(r) {
				n++
			}
		}
		return n
	}
	succeeded := answered(func(r *request) bool { return r.answer == http.StatusOK })
	byPerson := func(how string) bool {
		return slices.ContainsFunc(h.endings, func(e ending) bool { return e.how == how && e.by != byDatabase })
	}
	if len(h.requests) > s.attempts {
		add(unbalanced, "%d requests were sent and it has %d attempts: %s%s", len(h.requests), s.attempts, s.tried, h.story())
	}
	if s.done > succeeded {
		add(unbalanced, "%d attempts say done, and %d requests were answered with success", s.done, succeeded)
	}
	if e := h.last(); e != nil && !stands(e.how, inbox.EffectState(s.state)) && !h.permitted(e, time.Now()) {
		add(overridden, "it was %s by %s, and nobody asked for it afterwards%s", e.how, e.by, h.story())
	}
	explained := true
	switch inbox.EffectState(s.state) {
	case inbox.EffectPending, inbox.EffectClaimed, inbox.EffectRetry:
		add(unfinished, "nothing stands in its way")
	case inbox.EffectHeld:
		if !s.blocked {
			add(unfinished, "nothing holds it")
		}
	case inbox.EffectDone:
		if succeeded == 0 && !byPerson(resolved) && !h.probed {
			add(lost, "no target answered it with success, and nobody said that it happened")
		}
	case inbox.EffectSkipped:
		explained = byPerson(discarded) || s.reason == string(inbox.ReasonPruned) && h.source == "brief"
	case inbox.EffectSuperseded:
		explained = inOrder(h.route) || h.route == "turns"
	case inbox.EffectDuplicate:
		explained = h.route == "receipt"
	case inbox.EffectDead:
		switch inbox.Reason(s.reason) {
		case inbox.ReasonExhausted, inbox.ReasonStatus410, inbox.ReasonStatus4xx:
			explained = answered(func(r *request) bool { return r.answer != http.StatusOK }) > 0 || kills
		case inbox.ReasonBodyGone:
			explained = byPerson(erased)
		default:
			explained = false
		}
	case inbox.EffectIndeterminate:
		switch inbox.Reason(s.reason) {
		case inbox.ReasonStatus503:
			explained = answered(func(r *request) bool { return r.answer == http.StatusServiceUnavailable }) > 0
		case inbox.ReasonStatus5xx:
			explained = answered(func(r *request) bool { return r.answer == http.StatusInternalServerError }) > 0
		case inbox.ReasonTimeout, inbox.ReasonConnection, inbox.ReasonReply:
			explained = answered(func(r *request) bool { return r.answer == 0 }) > 0
		case inbox.ReasonLeaseExpired, inbox.ReasonStopped:
			explained = kills
		default:
			explained = false
		}
	}
	if !explained {
		add(unexplained, "nothing of the campaign brings that about")
	}
	return out
}

// stands reports whether a state is that of what a person decided.
func stands(how string, state inbox.EffectState) bool {
	switch how {
	case discarded:
		return state == inbox.EffectSkipped
	case resolved:
		return state == inbox.EffectDone
	}
	return state.Settled() || state.AtRest()
}

// acknowledged looks for every event that was acknowledged, and for the effects that it
// has to have had.
func (c *campaign) acknowledged(ctx context.Context) error {
	rows, err := c.db.Query(ctx, `SELECT s.name || '/' || v.event_id FROM inbox_event v JOIN source s ON s.id = v.source_id`)
	if err != nil {
		return fmt.Errorf("reading events: %w", err)
	}
	keys, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("reading events: %w", err)
	}
	there, effects := map[string]bool{}, map[string]bool{}
	for _, key := range keys {
		there[key] = true
	}
	for _, h := range c.histories {
		effects[h.source+"/"+h.event+"/"+h.route] = true
	}
	c.violate(missing(c.deliveries.events, there, effects)...)
	return nil
}

// missing compares what was acknowledged with what is there.
func missing(events map[string]*event, there, effects map[string]bool) (out []violation) {
	for _, key := range sorted(events) {
		e := events[key]
		if !e.acknowledged {
			continue
		}
		if !there[key] {
			out = append(out, violation{lost, key + " was acknowledged and is not there"})
			continue
		}
		for _, route := range expected(e.source, e.sent[0].Type) {
			if !effects[key+"/"+route] {
				out = append(out, violation{lost, key + " was acknowledged and never had an effect for " + route})
			}
		}
	}
	return out
}

const (
	readReplays = `
SELECT r.id::text, r.state, count(i.replay_id) FILTER (WHERE i.left_out IS NULL AND o.replay_id IS NULL), max(o.acted_at)
FROM replay r LEFT JOIN replay_item i ON i.replay_id = r.id
LEFT JOIN replay_outcome o ON o.replay_id = i.replay_id AND o.position = i.position
GROUP BY 1, 2`
	replayStates = `SELECT state, count(*) FROM replay GROUP BY 1`
	outcomes     = `SELECT outcome, count(*) FROM replay_outcome GROUP BY 1`
)

// replayEnd is what a replay came to.
type replayEnd struct {
	id, state string
	open      int // items that had no turn
	acted     *time.Time
}

// endedReplays looks whether replays have ended, and acted on nothing after they were cancelled.
func (c *campaign) endedReplays(ctx context.Context) error {
	cancels := map[string][]*act{}
	for _, r := range c.replays {
		cancels[r.id] = r.cancelled
	}
	rows, err := c.db.Query(ctx, readReplays)
	if err != nil {
		return fmt.Errorf("reading replays: %w", err)
	}
	var e replayEnd
	if _, err := pgx.ForEachRow(rows, []any{&e.id, &e.state, &e.open, &e.acted}, func() error {
		c.violate(e.judge(cancels[e.id])...)
		return nil
	}); err != nil {
		return fmt.Errorf("reading replays: %w", err)
	}
	o := &operator{campaign: c, name: "end", random: c.source(0, 222)}
	for i, r := range c.replays {
		if len(r.runs) > 0 && i%10 == 0 {
			if err := o.compareReplay(ctx, r.id); err != nil {
				return err
			}
		}
	}
	for name, query := range map[string]string{"replays": replayStates, "items": outcomes} {
		if c.final[name], err = c.counts(ctx, query); err != nil {
			return err
		}
	}
	return nil
}

// judge compares the end of a replay with what people decided about it.
func (e *replayEnd) judge(cancels []*act) (out []violation) {
	switch {
	case e.state == string(inbox.ReplayRunning):
		out = append(out, violation{unending, fmt.Sprintf("replay %s is still running, and %d of its items had no turn", e.id, e.open)})
	case e.state == string(inbox.ReplayDone) && e.open > 0:
		out = append(out, violation{unending, fmt.Sprintf("replay %s is done, and %d of its items had no turn", e.id, e.open)})
	}
	for _, a := range cancels {
		if e.state != string(inbox.ReplayCancelled) {
			out = append(out, violation{undecided, fmt.Sprintf("replay %s is %s after %s", e.id, e.state, a)})
		}
		if e.acted != nil && e.acted.After(a.To) {
			out = append(out, violation{unending, fmt.Sprintf("replay %s acted on an item at %s, after %s", e.id, e.acted.Format(clock), a)})
		}
	}
	return out
}

// miscount compares a number that a command told with the rows.
func miscount(what string, told, have int64) (out []violation) {
	if told != have {
		out = append(out, violation{miscounted, fmt.Sprintf("%s: it says %d, and there are %d", what, told, have)})
	}
	return out
}

func (c *campaign) counts(ctx context.Context, query string, args ...any) (map[string]int, error) {
	rows, err := c.db.Query(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("counting: %w", err)
	}
	out := map[string]int{}
	var name string
	var n int
	if _, err = pgx.ForEachRow(rows, []any{&name, &n}, func() error { out[name] = n; return nil }); err != nil {
		return nil, fmt.Errorf("counting: %w", err)
	}
	return out, nil
}

// compareReplay compares what `replay status` counts with the rows.
func (o *operator) compareReplay(ctx context.Context, id string) error {
	var out inbox.Replay
	a, err := o.oncegate(ctx, how{kind: "replay status", spared: true}, &out, "replay", "status", id)
	if err != nil || a.Code != 0 {
		return err // a plan may have been pruned
	}
	rows, err := o.counts(ctx, `SELECT outcome, count(*) FROM replay_outcome WHERE replay_id = $1 GROUP BY 1`, id)
	if err != nil {
		return err
	}
	for _, outcome := range inbox.ItemOutcomes() {
		o.violate(miscount(fmt.Sprintf("items of replay %s that are %s", id, outcome), int64(out.Summary.Outcomes[outcome]), int64(rows[string(outcome)]))...)
	}
	return nil
}

// backlogs compares what `routes list` counts with the rows, while nothing moves.
func (c *campaign) backlogs(ctx context.Context) error {
	var told []inbox.RouteBacklog
	o := &operator{campaign: c, name: "end", random: c.source(0, 223)}
	if err := o.must(ctx, "routes list", &told, "routes", "list"); err != nil {
		return err
	}
	rows, err := c.counts(ctx, `
SELECT s.name || '/' || r.name || ' ' || e.state, count(*) FROM effect e JOIN route r ON r.id = e.route_id JOIN source s ON s.id = r.source_id GROUP BY 1`)
	if err != nil {
		return err
	}
	for _, r := range told {
		for state, n := range map[string]int{"dead": r.Dead, "indeterminate": r.Indeterminate, "claimed": r.Claimed} {
			c.violate(miscount(fmt.Sprintf("routes list, effects of %s/%s that are %s", r.Source, r.Route, state), int64(n), int64(rows[r.Source+"/"+r.Route+" "+state]))...)
		}
	}
	return nil
}

// pruned prunes everything that may be, and compares what the command says with the rows.
func (c *campaign) pruned(ctx context.Context) error {
	count := func() (n int64, err error) { return n, c.db.QueryRow(ctx, `SELECT count(*) FROM effect`).Scan(&n) }
	before, err := count()
	if err != nil {
		return err
	}
	var out inbox.PruneReport
	o := &operator{campaign: c, name: "end", random: c.source(0, 224)}
	a, err := o.oncegate(ctx, how{kind: "prune --include", decides: true, asks: true, spared: true}, &out, "prune", "--include", "dead,indeterminate,held,replay")
	if err != nil {
		return err
	}
	after, err := count()
	if err != nil {
		return err
	}
	if a.Code == 0 {
		c.violate(miscount(a.String()+", effects that were removed", out.Rows["effect"], before-after)...)
	}
	return nil
}

// resealed rotates once more, while nothing runs, and looks whether all is under the new key.
func (c *campaign) resealed(ctx context.Context) error {
	o := &operator{campaign: c, name: "end", random: c.source(0, 225)}
	if err := c.bury(ctx); err != nil {
		return err
	}
	rows, err := o.keys(ctx)
	if err != nil {
		return err
	}
	if newest := rows[len(rows)-1].ID; newest > activeOf(rows) {
		err = o.must(ctx, "keys activate", nil, "keys", "activate", fmt.Sprint(newest))
	} else {
		err = o.must(ctx, "keys rotate", nil, "keys", "rotate")
	}
	if err != nil {
		return err
	}
	if rows, err = o.keys(ctx); err != nil {
		return err
	}
	due := underOthers(rows)
	var out struct{ Resealed, Unreadable int64 }
	if err := o.must(ctx, "keys reseal", &out, "keys", "reseal"); err != nil {
		return err
	}
	c.violate(miscount("keys reseal, values that were under other keys", out.Resealed, due)...)
	c.violate(miscount("keys reseal, values that cannot be opened", out.Unreadable, 0)...)
	if rows, err = o.keys(ctx); err != nil {
		return err
	}
	c.violate(old(rows)...)
	for _, r := range rows {
		if !r.Active {
			if err := o.must(ctx, "keys remove", nil, "keys", "remove", fmt.Sprint(r.ID)); err != nil {
				return err
			}
		}
	}
	return nil
}

// A marker, as text and as the bytes of a bytea are written.
var (
	plainMarker = regexp.MustCompile(`mark-[0-9a-f]{12}`)
	bytesMarker = regexp.MustCompile(`6d61726b2d((?:3[0-9]|6[1-6]){12})`)
)

// leaks looks through every table for content that has to be gone: that of erased events,
// and where everything is sealed, any.
func (c *campaign) leaks(ctx context.Context, sealed bool) error {
	rows, err := c.db.Query(ctx, `SELECT relname::text FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r' ORDER BY 1`)
	if err != nil {
		return fmt.Errorf("listing tables: %w", err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("listing tables: %w", err)
	}
	conn, err := c.db.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("reading tables: %w", err)
	}
	defer conn.Release()
	for _, table := range tables {
		content, err := copyOut(ctx, conn.Conn().PgConn(), table)
		if err != nil {
			return err
		}
		c.violate(leaking(table, content, c.deliveries.events, sealed)...)
	}
	return nil
}

func copyOut(ctx context.Context, conn *pgconn.PgConn, table string) ([]byte, error) {
	var out writer
	if _, err := conn.CopyTo(ctx, &out, "COPY (SELECT * FROM "+pgx.Identifier{table}.Sanitize()+") TO STDOUT"); err != nil {
		return nil, fmt.Errorf("reading table %s: %w", table, err)
	}
	return out, nil
}

type writer []byte

func (w *writer) Write(p []byte) (int, error) {
	*w = append(*w, p...)
	return len(p), nil
}
