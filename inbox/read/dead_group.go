package read

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// DeadGroup is dead letters that look like one fault.
type DeadGroup struct {
	Count  int    `json:"count"`
	Source string `json:"source"`
	Route  string `json:"route,omitempty"`
	Target string `json:"target,omitempty"`
	// Reason is why the last attempt failed, if that is known, else why the effect is
	// dead.
	Reason string `json:"reason"`
	Code   string `json:"code,omitempty"`
	// First and Last are when the first and the last of them died.
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	// Example is one of them, the newest.
	Example inbox.ID `json:"example"`
}

// maxGroups bounds the groups: sources, routes and reasons are few, codes are
// what targets choose.
const maxGroups = 1000

// The groups of one window. Ids sort as text as they do as bytes, and text has a maximum.
const (
	groupDead = `
SELECT count(*), source, route, target, reason, code, min(died_at), max(died_at), max(id::text)::uuid
FROM (
    SELECT e.id, s.name AS source, r.name AS route, r.target, ` + lastFailure + ` AS reason, coalesce(e.last_code, '') AS code,
        coalesce(t.finished_at, v.received_at) AS died_at
    FROM (SELECT e.* FROM effect e WHERE e.state = 'dead'`
	groupDeadEvents = ` ORDER BY e.id DESC OFFSET 0) e
    JOIN route r ON r.id = e.route_id
    JOIN inbox_event v ON v.id = e.event_id
    JOIN source s ON s.id = v.source_id
    LEFT JOIN LATERAL (
        SELECT t.finished_at, t.reason
        FROM effect_attempt t
        WHERE t.effect_id = e.id AND t.version = e.version
        ORDER BY t.attempt DESC
        LIMIT 1) t ON true
    UNION ALL
    SELECT v.id, s.name, '', '', v.admission, '', v.received_at
    FROM (SELECT v.* FROM inbox_event v WHERE `
	groupDeadBy = ` ORDER BY v.id DESC OFFSET 0) v
    JOIN source s ON s.id = v.source_id) d
GROUP BY source, route, target, reason, code`
)

// DeadGroups sums dead letters up by source, route, reason and the target's code, the largest
// group first. A group has what was found within the budget of a list: if SearchedTo is set, older
// dead letters are not counted. There is no next page.
func (l *Lister) DeadGroups(ctx context.Context, f DeadFilter) (Page[DeadGroup], error) {
	page, err := l.deadGroups(ctx, f)
	if err != nil {
		return page, fmt.Errorf("grouping dead letters: %w", err)
	}
	return page, nil
}

func (l *Lister) deadGroups(ctx context.Context, f DeadFilter) (page Page[DeadGroup], err error) {
	effects, events := l.deadPredicates(&f)
	type key struct{ source, route, target, reason, code string }
	groups := map[key]*DeadGroup{}
	_, searched, cut, err := searchList(ctx, l.search(), inbox.ID{}, l.edgeOfDead(idSince(f.Since)), func(ctx context.Context, from, to inbox.ID) (bool, error) {
		if err := l.checkText(ctx, &f, from, to); err != nil {
			return false, err
		}
		var s row.Statement
		s.Add(groupDead).And(effectsBetween(to, from)).And(effects)
		s.Add(groupDeadEvents).Add(row.DeadEvent).And(eventsBetween(to, from)).And(events).Add(groupDeadBy)
		found, err := collect(ctx, l, &s, pgx.RowToStructByPos[DeadGroup])
		for i := range found {
			g := &found[i]
			k := key{g.Source, g.Route, g.Target, g.Reason, g.Code}
			if known := groups[k]; known != nil {
				known.add(g)
			} else {
				groups[k] = g
			}
		}
		return false, err
	})
	if err != nil {
		return page, err
	}
	page.Data = make([]DeadGroup, 0, len(groups))
	for _, g := range groups {
		page.Data = append(page.Data, *g)
	}
	slices.SortFunc(page.Data, func(a, b DeadGroup) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), bytes.Compare(b.Example[:], a.Example[:]))
	})
	page.Data = page.Data[:min(len(page.Data), maxGroups)]
	if cut {
		page.SearchedTo = &searched
	}
	return page, nil
}

// add takes in what an older window has of the same group.
func (g *DeadGroup) add(older *DeadGroup) {
	g.Count += older.Count
	if older.First.Before(g.First) {
		g.First = older.First
	}
	if older.Last.After(g.Last) {
		g.Last = older.Last
	}
}
