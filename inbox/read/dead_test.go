package read_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/reasons"
)

// expect compares the event ids that a filter finds, listed and in groups.
func expect(t *testing.T, b *storetest.Buried, f read.DeadFilter, want string) {
	t.Helper()
	var each []string
	if err := b.Lister.EachDead(t.Context(), f, func(row *read.DeadRow) error { each = append(each, row.EventID); return nil }); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(each, " "); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	groups, err := inboxtest.Rows(b.Lister.DeadGroups(t.Context(), f))
	sum := 0
	for _, g := range groups {
		sum += g.Count
	}
	if err != nil || sum != len(each) {
		t.Errorf("groups of %d, %v, want %d", sum, err, len(each))
	}
}

// What used up its attempts is found, and classed, by why the last one failed: an
// address that is refused is the configuration's fault, and not a target's that did not
// answer.
func TestWhatGaveUpIsNarrowedByItsLastAttempt(t *testing.T) {
	t.Parallel()
	b := storetest.NewBuried(t)
	storetest.Exec(t, b.Pool, `UPDATE effect_attempt SET reason = CASE attempt WHEN 2 THEN 'address_refused' ELSE 'timeout' END WHERE effect_id = $1`, b.IDs["guid_5"])
	for name, c := range map[string]struct {
		filter read.DeadFilter
		want   string
	}{
		"by the last reason":  {read.DeadFilter{Reason: "address_refused"}, "guid_5"},
		"not by an earlier":   {read.DeadFilter{Reason: "timeout"}, ""},
		"by the effect's own": {read.DeadFilter{Reason: "attempts_exhausted"}, "guid_5 evt_2 evt_1"},
		"by its class":        {read.DeadFilter{ErrorClass: read.ErrorConfiguration}, "guid_6 guid_5"},
		"of no other":         {read.DeadFilter{ErrorClass: read.ErrorNoAnswer}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expect(t, b, c.filter, c.want)
		})
	}
}

func TestDeadLettersAreNarrowed(t *testing.T) {
	t.Parallel()
	b := storetest.NewBuried(t)
	for name, c := range map[string]struct {
		filter read.DeadFilter
		want   string
	}{
		"newest first":        {read.DeadFilter{}, "evt_8 ~7 guid_6 guid_5 evt_4 evt_3 evt_2 evt_1"},
		"by source":           {read.DeadFilter{Source: "github"}, "~7 guid_6 guid_5"},
		"by type":             {read.DeadFilter{Type: "invoice.paid"}, "evt_8 evt_2 evt_1"},
		"by route":            {read.DeadFilter{Route: "bill"}, "evt_3 evt_2 evt_1"},
		"by target":           {read.DeadFilter{Target: "db"}, "evt_4"},
		"by reason":           {read.DeadFilter{Reason: "attempts_exhausted"}, "guid_5 evt_2 evt_1"},
		"unusable":            {read.DeadFilter{Reason: "unusable"}, "~7"},
		"beyond retention":    {read.DeadFilter{Reason: "beyond_retention"}, "evt_8"},
		"answered 5xx":        {read.DeadFilter{ErrorClass: read.ErrorAnswer5xx}, "evt_2 evt_1"},
		"answered 4xx":        {read.DeadFilter{ErrorClass: read.ErrorAnswer4xx}, "evt_3"},
		"the database":        {read.DeadFilter{ErrorClass: read.ErrorDatabase}, "evt_4"},
		"no answer":           {read.DeadFilter{ErrorClass: read.ErrorNoAnswer}, "guid_5"},
		"the configuration":   {read.DeadFilter{ErrorClass: read.ErrorConfiguration}, "guid_6"},
		"the admission":       {read.DeadFilter{ErrorClass: read.ErrorAdmission}, "evt_8 ~7"},
		"by event id":         {read.DeadFilter{EventID: "evt_2"}, "evt_2"},
		"by text":             {read.DeadFilter{Text: "for the night"}, "evt_2 evt_1"},
		"by text of an event": {read.DeadFilter{Text: "TOMBSTONE"}, "evt_8"},
		"no pattern":          {read.DeadFilter{Text: "%"}, ""},
		"since":               {read.DeadFilter{Since: storetest.Nightfall.Add(5 * time.Hour)}, "evt_8 ~7 guid_6"},
		"until":               {read.DeadFilter{Until: storetest.Nightfall.Add(time.Hour)}, "evt_1"},
		"several":             {read.DeadFilter{Source: "stripe", Type: "charge.failed", Route: "bill"}, "evt_3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expect(t, b, c.filter, c.want)
		})
	}
	one := errors.New("enough")
	if err := b.Lister.EachDead(t.Context(), read.DeadFilter{}, func(*read.DeadRow) error { return one }); !errors.Is(err, one) {
		t.Errorf("%v", err)
	}
}

func TestDeadLettersAreGroupedAndPaged(t *testing.T) {
	t.Parallel()
	b := storetest.NewBuried(t)
	groups, err := inboxtest.Rows(b.Lister.DeadGroups(t.Context(), read.DeadFilter{}))
	if err != nil || len(groups) != 7 {
		t.Fatalf("%+v, %v", groups, err)
	}
	want := read.DeadGroup{
		Tally:  read.Tally{Count: 2, First: storetest.Nightfall.Add(time.Minute), Last: storetest.Nightfall.Add(time.Hour + time.Minute), Example: b.IDs["evt_2"]},
		Source: "stripe", Route: "bill", Target: "billing", Reason: "attempts_exhausted", Code: "503",
	}
	got := groups[0]
	got.First, got.Last = got.First.UTC(), got.Last.UTC()
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	var paged []string
	for cursor := ""; ; {
		page, err := b.Lister.Dead(t.Context(), read.DeadFilter{}, read.PageRequest{Cursor: cursor, Limit: 3})
		if err != nil || page.SearchedTo != nil {
			t.Fatalf("searched to %v, %v", page.SearchedTo, err)
		}
		for _, row := range page.Data {
			paged = append(paged, row.EventID)
			if (row.Route == "") != (row.ID == row.Event) || row.DiedAt == nil {
				t.Errorf("%+v", row)
			}
		}
		if cursor = page.Next; !page.HasMore {
			break
		}
	}
	if got := strings.Join(paged, " "); got != "evt_8 ~7 guid_6 guid_5 evt_4 evt_3 evt_2 evt_1" {
		t.Errorf("pages give %s", got)
	}
}

// A reason is of the closed set, and so is every class of errors.
func TestEveryDeadLetterHasAClass(t *testing.T) {
	t.Parallel()
	b := storetest.NewBuried(t)
	all := []reasons.Reason{reasons.BodyGone, reasons.Render, reasons.Mail5xx, reasons.Handler, reasons.LeaseExpired, reasons.Other, "never heard of"}
	for i, reason := range all {
		storetest.Exec(t, b.Pool, `UPDATE effect SET reason = $2, last_code = NULL WHERE id = $1`, b.IDs["evt_1"], string(reason))
		rows, err := inboxtest.Rows(b.Lister.Dead(t.Context(), read.DeadFilter{EventID: "evt_1"}, read.PageRequest{}))
		if err != nil || len(rows) != 1 || !slices.Contains(read.ErrorClasses(), read.ErrorClass(rows[0].ErrorClass)) {
			t.Errorf("%d %s: %+v, %v", i, reason, rows, err)
		}
	}
}
