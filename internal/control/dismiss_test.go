package control_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/attention"
	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/control"
	"github.com/oncegate/oncegate/internal/session"
)

// waitingRows are the sources shop, of the tenant acme, and bank. Each has an event with three payloads that conflict with it, and
// shop has 30 forgeries of one peer and a delivery of another whose signature does not match.
const waitingRows = `
CREATE FUNCTION new_id(n int) RETURNS uuid LANGUAGE sql AS $$
    SELECT (lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0') || '7000800000000000' || lpad(n::text, 4, '0'))::uuid $$;
INSERT INTO source (name, provider, class, tenant) VALUES ('shop', 'stripe', 'default', 'acme'), ('bank', 'stripe', 'default', '');
INSERT INTO inbox_event (id, source_id, event_id, type, body_sha256, received_at, admission, class, body_id, item, body_offset, body_length, id_unsigned, suspected_replay)
    SELECT new_id(s), s, 'evt_1', 'x', sha256('x'), now(), 'ok', 'default', new_id(s), 0, 0, 1, false, false FROM generate_series(1, 2) s;
INSERT INTO conflict (id, event_id, source_id, payload_sha256, sha256, paths, type, sequence_key, sequence_number, id_unsigned, first_seen_at, last_seen_at, headers, body)
    SELECT new_id(e.source_id * 10 + n), e.id, e.source_id, sha256(n::text::bytea), sha256(n::text::bytea), '{}', 'x', '', '', false, now(), now(), '', 'x'
    FROM inbox_event e, generate_series(1, 3) n;
INSERT INTO refusal (id, source_id, received_at, cause, diagnosis, whole, method, url, remote, peer, size)
    SELECT new_id(100 + n), 1, now() - n * interval '1 second', 'mismatch', CASE n WHEN 31 THEN 'the old secret' ELSE 'no secret' END, false, 'POST', '/', '',
        CASE n WHEN 31 THEN '198.51.100.9' ELSE '192.0.2.7' END, 0
    FROM generate_series(1, 31) n;`

// waiting returns how many things of a kind wait for a person.
func waiting(t *testing.T, caller control.Caller, kind attention.Kind) int64 {
	t.Helper()
	all, err := control.Call(t.Context(), caller, &control.ShowAttention, control.ShowAttentionRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range all.Data {
		if item.Kind == kind {
			return item.Count
		}
	}
	return 0
}

// waitingService makes a database with [waitingRows] and callers of it: of all, and of the tenant other.
func waitingService(t *testing.T) (pool *pgxpool.Pool, all, other control.Caller) {
	t.Helper()
	url, schema := inboxtest.Schema(t)
	pool = inboxtest.Open(t, url, schema, session.PoolAdmin, 4)
	if _, err := pool.Exec(t.Context(), waitingRows); err != nil {
		t.Fatal(err)
	}
	service, err := control.NewService(control.Config{Pool: pool})
	if err != nil {
		t.Fatal(err)
	}
	return pool, &control.Local{Service: service, Access: control.Everything("ann")},
		&control.Local{Service: service, Access: control.Access{Actor: "bob", Scopes: control.Scopes{control.Admin}, Tenant: "other"}}
}

func TestConflictsAreDismissed(t *testing.T) {
	t.Parallel()
	pool, all, other := waitingService(t)
	why := control.Explained{Reason: "the sender rewrote its notes"}
	dismiss := func(caller control.Caller, r control.DismissConflictsRequest) control.DismissedConflicts {
		t.Helper()
		out, err := control.Call(t.Context(), caller, &control.DismissConflicts, r)
		if err != nil {
			t.Fatalf("%+v: %v", r, err)
		}
		return out
	}
	shop := control.ConflictFilter{Source: "shop"}
	if _, err := pool.Exec(t.Context(), `UPDATE conflict SET admitted_at = now(), admitted_as = event_id WHERE id = (SELECT min(id::text)::uuid FROM conflict WHERE source_id = 1)`); err != nil {
		t.Fatal(err)
	}
	if n := waiting(t, all, attention.Conflicts); n != 5 {
		t.Fatalf("%d conflicts wait, want 5", n)
	}
	found := dismiss(all, control.DismissConflictsRequest{Filter: shop, DryRun: true})
	if found.Matched != 2 || found.Dismissed != 0 || waiting(t, all, attention.Conflicts) != 5 {
		t.Errorf("a dry run found %+v, want 2 and no change", found)
	}
	if err := callError(t, other, &control.DismissConflicts, control.DismissConflictsRequest{Explained: why, Seen: found.Seen}); !errors.Is(err, inbox.ErrNotFound) {
		t.Errorf("another tenant hands back what was seen: %v", err)
	}
	if out := dismiss(other, control.DismissConflictsRequest{All: true, DryRun: true}); out.Matched != 0 {
		t.Errorf("another tenant found %+v", out)
	}
	if out := dismiss(all, control.DismissConflictsRequest{Explained: why, Seen: found.Seen}); out.Dismissed != 2 || out.Left != 0 {
		t.Errorf("%+v, want 2 dismissed", out)
	}
	if out := dismiss(all, control.DismissConflictsRequest{Explained: why, Seen: found.Seen}); out.Dismissed != 0 || out.Changed != 2 {
		t.Errorf("once more: %+v", out)
	}
	if n := waiting(t, all, attention.Conflicts); n != 3 {
		t.Errorf("%d conflicts wait, want 3", n)
	}
	list, err := control.Call(t.Context(), all, &control.ListConflicts, control.ListConflictsRequest{ConflictFilter: shop})
	by := ""
	for _, c := range list.Data {
		by += fmt.Sprint(c.DismissedBy, c.DismissedAt != nil, " ")
	}
	if err != nil || strings.Count(by, "anntrue") != 2 || len(list.Data) != 3 {
		t.Errorf("the list says %q, %v", by, err)
	}
	if list, err = control.Call(t.Context(), all, &control.ListConflicts, control.ListConflictsRequest{ConflictFilter: shop, Waiting: true}); err != nil || len(list.Data) != 0 {
		t.Errorf("of shop wait %+v, %v", list.Data, err)
	}
	var audit int
	if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM audit WHERE action = 'conflict.dismiss' AND actor = 'ann' AND reason = $1 AND before->>'source' = 'shop'`, why.Reason).Scan(&audit); err != nil || audit != 2 {
		t.Errorf("%d entries in the audit, %v", audit, err)
	}
	for text, r := range map[string]control.DismissConflictsRequest{
		"seen is missing":    {Explained: why, Filter: shop},
		"by a filter, or":    {Explained: why},
		"not both":           {Explained: why, Filter: shop, IDs: []inbox.ID{list0(t, all)}},
		"no conflict that w": {Explained: why, IDs: []inbox.ID{inbox.FirstID(time.Now())}},
		"reason":             {IDs: []inbox.ID{list0(t, all)}},
	} {
		if err := callError(t, all, &control.DismissConflicts, r); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %q", err, text)
		}
	}
}

// list0 returns a conflict that waits.
func list0(t *testing.T, caller control.Caller) inbox.ID {
	t.Helper()
	list, err := control.Call(t.Context(), caller, &control.ListConflicts, control.ListConflictsRequest{Waiting: true})
	if err != nil || len(list.Data) == 0 {
		t.Fatal(err)
	}
	return list.Data[0].ID
}

func TestRefusalsAreAcknowledged(t *testing.T) {
	t.Parallel()
	pool, all, other := waitingService(t)
	groups := func(f control.RefusalFilter) string {
		t.Helper()
		page, err := control.Call(t.Context(), all, &control.GroupRefusals, f)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, g := range page.Data {
			if g.First.After(g.Last) || g.More || g.AcknowledgedBy != "" != (g.AcknowledgedAt != nil) {
				t.Errorf("%+v", g)
			}
			out = append(out, strings.TrimSpace(fmt.Sprint(g.Count, " ", g.Source, " ", g.Cause, " ", g.Peer, " ", g.Diagnosis, " ", g.AcknowledgedBy, " ", g.AcknowledgedWhy)))
		}
		return strings.Join(out, "; ")
	}
	const flood, rotated = "30 shop mismatch 192.0.2.7 no secret", "1 shop mismatch 198.51.100.9 the old secret"
	if got := groups(control.RefusalFilter{}); got != flood+"; "+rotated {
		t.Fatalf("the groups are %s", got)
	}
	if got := groups(control.RefusalFilter{Source: "shop", Peer: "198.51.100.9"}); got != rotated {
		t.Errorf("of one peer: %s", got)
	}
	acknowledge := func(caller control.Caller, withdraw bool, changed int) {
		t.Helper()
		out, err := control.Call(t.Context(), caller, &control.AcknowledgeRefusals, control.AcknowledgeRefusalsRequest{
			Explained: control.Explained{Reason: "a scanner"}, Causes: []decide.RefusalCause{{Source: "shop", Cause: "mismatch", Peer: "192.0.2.7"}}, Withdraw: withdraw,
		})
		if err != nil || out.Changed != changed {
			t.Fatalf("%+v, %v; want %d", out, err, changed)
		}
	}
	if n := waiting(t, all, attention.Refusals); n != 31 {
		t.Fatalf("%d refusals wait, want 31", n)
	}
	if err := callError(t, other, &control.AcknowledgeRefusals, control.AcknowledgeRefusalsRequest{Explained: control.Explained{Reason: "r"}, Causes: []decide.RefusalCause{{Source: "shop", Cause: "mismatch"}}}); err == nil {
		t.Error("another tenant acknowledges refusals of the source")
	}
	acknowledge(all, false, 1)
	acknowledge(all, false, 0)
	if got := groups(control.RefusalFilter{}); got != flood+" ann a scanner; "+rotated {
		t.Errorf("the groups are %s", got)
	}
	if n := waiting(t, all, attention.Refusals); n != 1 {
		t.Errorf("%d refusals wait, want the one of the other peer", n)
	}
	insert := func(source int, cause string) {
		t.Helper()
		if _, err := pool.Exec(t.Context(), `INSERT INTO refusal (id, source_id, received_at, cause, diagnosis, whole, method, url, remote, peer, size)
			VALUES (new_id((random() * 8000)::int + 1000), $1, now(), $2, '', false, 'POST', '/', '', '192.0.2.7', 0)`, source, cause); err != nil {
			t.Fatal(err)
		}
	}
	insert(1, "mismatch")
	if n := waiting(t, all, attention.Refusals); n != 1 {
		t.Errorf("one more of the acknowledged cause: %d wait, want 1", n)
	}
	insert(1, "too_old")
	insert(2, "mismatch")
	if n := waiting(t, all, attention.Refusals); n != 3 {
		t.Errorf("of another cause and of another source: %d wait, want 3", n)
	}
	acknowledge(all, true, 1)
	if n := waiting(t, all, attention.Refusals); n != 34 {
		t.Errorf("withdrawn: %d wait, want 34", n)
	}
	var audit string
	if err := pool.QueryRow(t.Context(), `SELECT string_agg(action || ' ' || object || ' ' || (after->>'peer') || coalesce(' of ' || (before->>'acknowledged_by'), ''), ', ' ORDER BY id) FROM audit`).Scan(&audit); err != nil ||
		audit != "refusal.acknowledge source/shop 192.0.2.7, refusal.withdraw source/shop 192.0.2.7 of ann" {
		t.Errorf("the audit has %s, %v", audit, err)
	}
}
