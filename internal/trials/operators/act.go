package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/internal/drill/rig"
)

// actKind is one kind of act, and its weight when an act is drawn. do reports false if there was nothing to act on.
type actKind struct {
	name   string
	weight int
	do     func(o *operator, ctx context.Context) (bool, error)
}

// actKinds are the acts of operators. Another operator rotates keys, because that takes long.
var actKinds = []actKind{
	{"plan", 16, (*operator).makePlan},
	{"run", 14, (*operator).runPlan},
	{"new routes", 3, (*operator).newRoutes},
	{"cancel", 4, (*operator).cancelPlan},
	{"dead replay", 4, (*operator).deadReplay},
	{"discard", 9, (*operator).discard},
	{"discard many", 3, (*operator).discardMany},
	{"resolve", 12, (*operator).resolve},
	{"resolve many", 3, (*operator).resolveMany},
	{"pass a stream", 12, (*operator).passStream},
	{"end what is undecided", 7, (*operator).endUndecided},
	{"erase", 7, (*operator).erase},
	{"prune", 5, (*operator).prune},
	{"clear a route", 5, (*operator).clearRoute},
	{"admit", 4, (*operator).admitConflict},
	{"reseal", 4, (*operator).reseal},
	{"migrate", 4, (*operator).migrate},
	{"look", 6, (*operator).readLists},
}

// act draws kinds of acts until one finds something to act on.
func (o *operator) act(ctx context.Context) error {
	total := 0
	for _, k := range actKinds {
		total += k.weight
	}
	for range 20 {
		n := o.random.IntN(total)
		for _, k := range actKinds {
			if n -= k.weight; n >= 0 {
				continue
			}
			if acted, err := k.do(o, ctx); err != nil || acted {
				return wrapError(k.name, err)
			}
			break
		}
	}
	return nil
}

func wrapError(name string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// drawIDs draws at most n of the texts that a query returns.
func (o *operator) drawIDs(ctx context.Context, n int, query string, args ...any) ([]string, error) {
	rows, err := o.db.Query(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("looking for something to act on: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("looking for something to act on: %w", err)
	}
	o.random.Shuffle(len(found), func(i, j int) { found[i], found[j] = found[j], found[i] })
	return found[:min(len(found), n)], nil
}

// drawID draws one of the texts that a query returns; it is empty if there is none.
func (o *operator) drawID(ctx context.Context, query string, args ...any) (string, error) {
	found, err := o.drawIDs(ctx, 1, query, args...)
	if err != nil || len(found) == 0 {
		return "", err
	}
	return found[0], nil
}

// candidateCount is from how many things one is drawn. In every other round they are so few that operators act on the
// same.
func (o *operator) candidateCount() int { return []int{40, 4}[o.round%2] }

const newestInState = `SELECT id::text FROM effect WHERE state = ANY ($1) ORDER BY id DESC LIMIT $2`

func (o *operator) discard(ctx context.Context) (bool, error) {
	ids, err := o.drawIDs(ctx, 1+o.random.IntN(3), newestInState, []string{"dead"}, o.candidateCount())
	if err != nil || len(ids) == 0 {
		return false, err
	}
	var out decide.Discarded
	a, err := o.runCommand(ctx, commandOptions{kind: "dead discard", decides: true, confirms: true, action: string(inbox.AuditDiscard)}, &out, append([]string{"dead", "discard"}, ids...)...)
	if err == nil && a.ExitCode == 0 {
		a.reported = out.Discarded
		if out.Discarded+out.Changed != len(ids) {
			o.violate(rig.NewViolation(miscounted, "%s was asked for %d dead letters and says %+v", a, len(ids), out))
		}
	}
	return true, err
}

// drawFilter draws the flags of a filter.
func (o *operator) drawFilter() []string {
	all := [][]string{
		{"--source", "pay", "--route", "charge"}, {"--source", "pay", "--route", "notify"}, {"--source", "brief"}, {"--source", "orders"},
		{"--type", "pay.made"}, {"--target", "once"}, {"--target", "idem"},
	}
	return append(all[o.random.IntN(len(all))], "--since", "20s")
}

func (o *operator) discardMany(ctx context.Context) (bool, error) {
	var out decide.Discarded
	a, err := o.runCommand(ctx, commandOptions{kind: "dead discard --filter", decides: true, confirms: true, action: string(inbox.AuditDiscard)}, &out, append([]string{"dead", "discard"}, o.drawFilter()...)...)
	if err == nil && a.ExitCode == 0 {
		a.reported = out.Discarded
	}
	return true, err
}

// drawVerdict draws whether something indeterminate has happened.
func (o *operator) drawVerdict() (flag, action string) {
	if o.random.IntN(2) == 0 {
		return "--done", string(inbox.AuditResolveDone)
	}
	return "--resend", string(inbox.AuditResolveResend)
}

func (o *operator) resolve(ctx context.Context) (bool, error) {
	id, err := o.drawID(ctx, newestInState, []string{"indeterminate"}, o.candidateCount())
	if err != nil || id == "" {
		return false, err
	}
	flag, action := o.drawVerdict()
	a, err := o.runCommand(ctx, commandOptions{kind: "effects resolve " + flag, decides: true, confirms: true, action: action}, &struct{}{}, "effects", "resolve", id, flag)
	if err == nil && a.ExitCode == 0 {
		a.reported = 1
	}
	return true, err
}

func (o *operator) resolveMany(ctx context.Context) (bool, error) {
	flag, action := o.drawVerdict()
	var out decide.ResolvedMany
	a, err := o.runCommand(ctx, commandOptions{kind: "effects resolve --filter " + flag, decides: true, confirms: true, action: action}, &out,
		append([]string{"effects", "resolve", flag}, o.drawFilter()...)...)
	if err == nil && a.ExitCode == 0 {
		a.reported = out.Resolved
	}
	return true, err
}

const blockedStreams = `
SELECT s.id::text FROM stream s JOIN route r ON r.id = s.route_id
WHERE (s.blocked_by IS NOT NULL OR s.gap_since IS NOT NULL) ORDER BY s.id DESC LIMIT $1`

func (o *operator) passStream(ctx context.Context) (bool, error) {
	id, err := o.drawID(ctx, blockedStreams, o.candidateCount())
	if err != nil || id == "" {
		return false, err
	}
	as := "skip"
	if o.random.IntN(2) == 0 {
		as = "unblock"
	}
	a, err := o.runCommand(ctx, commandOptions{kind: "streams " + as, decides: true, confirms: true}, &struct{}{}, "streams", as, id)
	if err == nil {
		o.passed(ctx, a, id)
	}
	return true, err
}

const heldForPerson = `
SELECT id::text FROM effect
WHERE state = 'held' AND reason IN ('sequence_key_missing', 'sequence_number_missing', 'sequence_number_taken', 'sequence_time_ahead') ORDER BY id DESC LIMIT $1`

func (o *operator) endUndecided(ctx context.Context) (bool, error) {
	id, err := o.drawID(ctx, heldForPerson, o.candidateCount())
	if err != nil || id == "" {
		return false, err
	}
	as, action := "apply", inbox.AuditOrderApply
	if o.random.IntN(2) == 0 {
		as, action = "skip", inbox.AuditOrderSkip
	}
	var out struct{ Ended int }
	a, err := o.runCommand(ctx, commandOptions{kind: "streams " + as + " <effect>", decides: true, confirms: true, action: string(action)}, &out, "streams", as, id)
	if err == nil && a.ExitCode == 0 {
		a.reported = out.Ended
	}
	return true, err
}

const erasable = `
SELECT s.name || '/' || v.event_id FROM inbox_event v JOIN source s ON s.id = v.source_id
WHERE v.class <> 'erased' ORDER BY v.id DESC LIMIT 60`

func (o *operator) erase(ctx context.Context) (bool, error) {
	key, err := o.drawID(ctx, erasable)
	if err != nil || key == "" {
		return false, err
	}
	return true, o.eraseKey(ctx, key, false)
}

func (o *operator) eraseKey(ctx context.Context, key string, struck bool) error {
	source, id, _ := strings.Cut(key, "/")
	a, err := o.runCommand(ctx, commandOptions{kind: "erase", decides: true, confirms: true, alwaysKilled: struck}, &struct{}{}, "erase", "--source", source, "--key", id)
	if err == nil && a.ExitCode == 0 {
		o.deliveries.mu.Lock()
		if e := o.deliveries.events[key]; e != nil {
			e.erased = append(e.erased, a.span())
		}
		o.deliveries.mu.Unlock()
	}
	return err
}

func (o *operator) prune(ctx context.Context) (bool, error) {
	if o.random.IntN(2) == 0 {
		a, err := o.runCommand(ctx, commandOptions{kind: "prune"}, &struct{}{}, "prune")
		if err == nil {
			err = o.lookForGone(ctx, a)
		}
		return true, err
	}
	all := []string{"dead", "indeterminate", "held", "replay"}
	o.random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	include := strings.Join(all[:1+o.random.IntN(4)], ",")
	a, err := o.runCommand(ctx, commandOptions{kind: "prune --include", decides: true, confirms: true}, &struct{}{}, "prune", "--include", include)
	if err == nil {
		err = o.lookForGone(ctx, a)
	}
	return true, err
}

func (o *operator) clearRoute(ctx context.Context) (bool, error) {
	var out decide.ClearedRoute
	h, args := commandOptions{kind: "routes discard", decides: true, confirms: true, action: string(inbox.AuditDiscard)}, []string{"routes", "discard", "pay/extra"}
	if o.random.IntN(2) == 0 {
		h, args = commandOptions{kind: "routes move", decides: true, confirms: true, action: string(inbox.AuditMove)}, []string{"routes", "move", "pay/extra", "--to", "charge"}
	}
	a, err := o.runCommand(ctx, h, &out, args...)
	if err == nil && a.ExitCode == 0 {
		a.reported = out.Cleared
	}
	return true, err
}

func (o *operator) admitConflict(ctx context.Context) (bool, error) {
	row, err := o.drawID(ctx, `
SELECT c.id::text || ' ' || s.name || '/' || v.event_id
FROM conflict c JOIN inbox_event v ON v.id = c.event_id JOIN source s ON s.id = v.source_id ORDER BY c.id DESC LIMIT 10`)
	if err != nil || row == "" {
		return false, err
	}
	id, key, _ := strings.Cut(row, " ")
	o.deliveries.mu.Lock()
	if e := o.deliveries.events[key]; e != nil {
		e.admitted = true // even if the command is killed, since it may have admitted it before
	}
	o.deliveries.mu.Unlock()
	_, err = o.runCommand(ctx, commandOptions{kind: "conflicts admit", decides: true, confirms: true}, &struct{}{}, "conflicts", "admit", id)
	return true, err
}

func (o *operator) reseal(ctx context.Context) (bool, error) {
	if o.keyring() == "" {
		return false, nil
	}
	_, err := o.runCommand(ctx, commandOptions{kind: "keys reseal"}, &struct{}{}, "keys", "reseal", "--wait", "1s")
	return true, err
}

func (o *operator) migrate(ctx context.Context) (bool, error) {
	verb := "up"
	if o.random.IntN(3) == 0 {
		verb = "status"
	}
	_, err := o.runCommand(ctx, commandOptions{kind: "migrate " + verb}, &struct{}{}, "migrate", verb)
	return true, err
}

// readLists runs one of the commands that only read.
func (o *operator) readLists(ctx context.Context) (bool, error) {
	all := [][]string{
		{"effects", "list"}, {"effects", "list", "--state", "indeterminate"}, {"dead", "list"}, {"dead", "list", "--group"}, {"streams", "list"},
		{"streams", "list", "--undecided"}, {"replay", "list"}, {"routes", "list"}, {"events", "list"}, {"conflicts", "list"}, {"audit", "list"},
		{"nodes", "list"}, {"prune", "--dry-run"}, {"effects", "resolve", "--all", "--dry-run"},
	}
	args := all[o.random.IntN(len(all))]
	a, err := o.runCommand(ctx, commandOptions{kind: "look", neverKilled: true}, new(any), args...)
	if err == nil && a.ExitCode != 0 {
		o.violate(rig.NewViolation(exitedWrongly, "%s only looks, and failed: %s", a, a.Stderr))
	}
	return true, err
}
