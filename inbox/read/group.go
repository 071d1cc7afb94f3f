package read

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// Tally counts the rows of a group.
type Tally struct {
	// Count is how many were found. More says that there may be others, because the search ended early: see
	// [Page.SearchedTo].
	Count int  `json:"count"`
	More  bool `json:"more,omitempty"`

	// First and Last are when the first and the last of them came: a refused delivery when it was received, a dead letter
	// when it died, and an unknown outcome when it may have been sent.
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`

	// Example is one of them, the newest.
	Example inbox.ID `json:"example"`
}

// selectTally reads a [Tally], the first columns of a group, out of the subquery g.
const selectTally = `
SELECT g.count, false, g.first, g.last, g.example, `

// maxGroups bounds the groups: sources, routes and reasons are few, codes are what targets choose.
const maxGroups = 1000

// tallied is a group, which has its Tally as its first columns.
type tallied[G any] interface {
	*G
	tally() *Tally
}

func (t *Tally) tally() *Tally { return t }

// add takes in what an older window has of the same group. The example stays the newest one.
func (t *Tally) add(older *Tally) {
	t.Count += older.Count
	if older.First.Before(t.First) {
		t.First = older.First
	}
	if older.Last.After(t.Last) {
		t.Last = older.Last
	}
}

// groupsOf sums the groups of the windows of a list up, the largest group first. find returns the statement for one window, and
// key what tells groups apart. A group has what was found within the budget of a list: if SearchedTo is set, older rows are not
// counted, and every count is a lower bound. There is no next page.
func groupsOf[G any, P tallied[G]](ctx context.Context, l *Lister, edge func(ctx context.Context, from inbox.ID, rows int) (inbox.ID, time.Time, error),
	key func(P) any, find func(ctx context.Context, from, to inbox.ID) (*row.Statement, error),
) (page Page[G], err error) {
	groups := map[any]P{}
	_, searched, cut, err := searchList(ctx, l.search(), inbox.ID{}, edge, func(ctx context.Context, from, to inbox.ID) (bool, error) {
		s, err := find(ctx, from, to)
		if err != nil {
			return false, err
		}
		found, err := collect(ctx, l, s, pgx.RowToStructByPos[G])
		for i := range found {
			g := P(&found[i])
			if known := groups[key(g)]; known != nil {
				known.tally().add(g.tally())
			} else {
				groups[key(g)] = g
			}
		}
		return false, err
	})
	if err != nil {
		return page, err
	}
	page.Data = make([]G, 0, len(groups))
	for _, g := range groups {
		g.tally().More = cut
		page.Data = append(page.Data, *g)
	}
	slices.SortFunc(page.Data, func(a, b G) int {
		one, other := P(&a).tally(), P(&b).tally()
		return cmp.Or(cmp.Compare(other.Count, one.Count), bytes.Compare(other.Example[:], one.Example[:]))
	})
	page.Data = page.Data[:min(len(page.Data), maxGroups)]
	if cut {
		page.SearchedTo = &searched
	}
	return page, nil
}
