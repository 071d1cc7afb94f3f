package decide_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/read"
)

func TestDiscardingDeadLetters(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		discard func(b *storetest.Buried) decide.Discard
		want    string // what is still on the list
		err     error
	}{
		"by id": {func(b *storetest.Buried) decide.Discard {
			return decide.Discard{IDs: []inbox.ID{b.IDs["evt_1"], b.IDs["~7"]}}
		}, "evt_8 guid_6 guid_5 evt_4 evt_3 evt_2", nil},
		"by a filter": {func(*storetest.Buried) decide.Discard {
			return decide.Discard{Filter: read.DeadFilter{Source: "stripe"}}
		}, "~7 guid_6 guid_5", nil},
		"everything":         {func(*storetest.Buried) decide.Discard { return decide.Discard{All: true} }, "", nil},
		"nothing said":       {func(*storetest.Buried) decide.Discard { return decide.Discard{} }, "evt_8 ~7 guid_6 guid_5 evt_4 evt_3 evt_2 evt_1", decide.ErrScope},
		"more than allowed":  {func(*storetest.Buried) decide.Discard { return decide.Discard{All: true, Max: 7} }, "evt_8 ~7 guid_6 guid_5 evt_4 evt_3 evt_2 evt_1", decide.ErrBound},
		"as many as allowed": {func(*storetest.Buried) decide.Discard { return decide.Discard{All: true, Max: 8} }, "", nil},
		"one that is not": {func(b *storetest.Buried) decide.Discard {
			return decide.Discard{IDs: []inbox.ID{b.IDs["evt_1"], b.IDs["evt_10"]}}
		}, "evt_8 ~7 guid_6 guid_5 evt_4 evt_3 evt_2 evt_1", inbox.ErrState},
		"one that is unknown": {func(b *storetest.Buried) decide.Discard {
			return decide.Discard{IDs: []inbox.ID{inbox.NewID(storetest.Nightfall)}}
		}, "evt_8 ~7 guid_6 guid_5 evt_4 evt_3 evt_2 evt_1", inbox.ErrNotFound},
		"an event with no fault": {func(b *storetest.Buried) decide.Discard { return decide.Discard{IDs: []inbox.ID{b.IDs["guid_11"]}} },
			"evt_8 ~7 guid_6 guid_5 evt_4 evt_3 evt_2 evt_1", inbox.ErrState},
		"a dry run": {func(*storetest.Buried) decide.Discard { return decide.Discard{All: true, DryRun: true} }, "evt_8 ~7 guid_6 guid_5 evt_4 evt_3 evt_2 evt_1", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := storetest.NewBuried(t)
			d := c.discard(b)
			d.Actor, d.Reason = "ann", "paid by hand"
			done := 0
			d.Progress = func(n, _ int) { done = n }
			out, err := decide.New(b.Effects).Discard(t.Context(), d)
			if !errors.Is(err, c.err) {
				t.Fatalf("%v, want %v", err, c.err)
			}
			var left []string
			if err := b.Lister.EachDead(t.Context(), read.DeadFilter{}, func(row *read.DeadRow) error { left = append(left, row.EventID); return nil }); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(left, " "); got != c.want {
				t.Errorf("left are %s, want %s", got, c.want)
			}
			entries, err := inboxtest.Rows(b.Lister.Audit(t.Context(), read.AuditFilter{}))
			if err != nil || len(entries) != 8-len(left) || out.Discarded != len(entries) || done != out.Discarded {
				t.Errorf("%d entries, %+v, %d done, %v", len(entries), out, done, err)
			}
			for _, entry := range entries {
				var before map[string]any
				if err := json.Unmarshal(entry.Before, &before); err != nil || before["state"] == nil && before["admission"] == nil || before["body_sha256"] != nil || entry.Actor != "ann" || entry.Reason != "paid by hand" {
					t.Errorf("%+v, %v", entry, err)
				}
			}
		})
	}
}

func TestADiscardedEffectIsSkippedAndKept(t *testing.T) {
	t.Parallel()
	b := storetest.NewBuried(t)
	id := b.IDs["evt_1"]
	storetest.Exec(t, b.Pool, `UPDATE effect SET sequence_key_hash = sha256('s'), sequence_number = 7 WHERE id = $1`, id)
	storetest.Exec(t, b.Pool, `INSERT INTO stream (route_id, key_hash, in_flight, blocked_by) SELECT route_id, sequence_key_hash, id, id FROM effect WHERE id = $1`, id)
	storetest.Exec(t, b.Pool, `INSERT INTO effect_key (route_id, key_hash, effect_id, received_at) SELECT route_id, sha256('k'), id, now() FROM effect WHERE id = $1`, id)
	if _, err := decide.New(b.Effects).Discard(t.Context(), decide.Discard{IDs: []inbox.ID{id}, Actor: "ann"}); !errors.Is(err, inbox.ErrUnexplained) {
		t.Errorf("without a reason: %v", err)
	}
	if _, err := decide.New(b.Effects).Discard(t.Context(), decide.Discard{IDs: []inbox.ID{id}, Actor: "ann", Reason: "paid by hand"}); err != nil {
		t.Fatal(err)
	}
	effect, err := b.Lister.Effect(t.Context(), id)
	if err != nil || effect.State != "skipped" || effect.Reason != "discarded" || len(effect.AttemptRows) != 2 || effect.FinishedAt == nil {
		t.Errorf("%+v, %v", effect, err)
	}
	var blocked, keys int
	err = b.Pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM stream WHERE in_flight IS NOT NULL OR blocked_by IS NOT NULL), (SELECT count(*) FROM effect_key)`).Scan(&blocked, &keys)
	if err != nil || blocked != 0 || keys != 0 {
		t.Errorf("%d streams blocked, %d keys held, %v", blocked, keys, err)
	}
	if _, err := decide.New(b.Effects).Discard(t.Context(), decide.Discard{IDs: []inbox.ID{id}, Actor: "ann", Reason: "again"}); !errors.Is(err, inbox.ErrState) {
		t.Errorf("twice: %v", err)
	}
}
