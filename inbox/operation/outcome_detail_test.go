package operation_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
)

// A failure says what its target said: the code, and the text as far as it can be shown. What our own
// network says is for the operator.
func TestFailureSaysWhatTheTargetSaid(t *testing.T) {
	t.Parallel()
	o := storetest.NewOperated(t, 1)
	for name, c := range map[string]struct {
		state, reason, code, excerpt string
		wantCode, wantDetail         string
	}{
		"refused":           {"dead", "status_4xx", "422", `{"error":"no such card"}`, "422", `{"error":"no such card"}`},
		"hidden characters": {"dead", "mail_5xx", "550", "5.1.1 unknown\r\n\x1b[31m", "550", `5.1.1 unknown\r\n\x1b[31m`},
		"a long text":       {"dead", "status_4xx", "400", strings.Repeat("é", 1000), "400", strings.Repeat("é", 250)},
		"our own network":   {"dead", "connect", "", "dial tcp 10.0.0.5:443: connection refused", "", ""},
		"the payload":       {"dead", "mapping_failed", "", "amount: no such key", "", "amount: no such key"},
		"unknown":           {"indeterminate", "status_5xx", "500", "oops", "500", "oops"},
		"done":              {"done", "", "200", "a reply", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := o.Event(t, "agent:charge:"+name, c.state)
			storetest.Exec(t, o.Pool, `UPDATE effect SET last_code = nullif($2, ''), reason = nullif($3, '') WHERE event_id = $1`, id, c.code, c.reason)
			storetest.Exec(t, o.Pool, `INSERT INTO effect_attempt (effect_id, attempt, version, trigger, node, started_at, finished_at, outcome, code, excerpt)
				SELECT e.id, a.n, a.version, 'initial', 'node', now(), now(), 'retry', CASE WHEN a.last THEN nullif($2, '') ELSE '503' END, CASE WHEN a.last THEN $3 ELSE 'an earlier one' END
				FROM effect e, (VALUES (1, 9, false), (2, 1, false), (2, 2, true)) a (version, n, last) WHERE e.event_id = $1`, id, c.code, c.excerpt)
			again := o.Event(t, "agent:charge:again:"+name, "done")
			storetest.Exec(t, o.Pool, `UPDATE effect SET state = 'duplicate', result = NULL, duplicate_of = (SELECT f.id FROM effect f WHERE f.event_id = $2) WHERE event_id = $1`, again, id)
			for _, event := range []inbox.ID{id, again} {
				document, ok, err := o.Ops.Result(t.Context(), event)
				if err != nil || !ok {
					t.Fatalf("%t, %v", ok, err)
				}
				var got struct {
					EventID    string `json:"event_id"`
					IntentHash string `json:"intent_hash"`
					Effects    []struct{ Code, Detail string }
				}
				if err := json.Unmarshal(document, &got); err != nil {
					t.Fatal(err)
				}
				if e := got.Effects[0]; e.Code != c.wantCode || e.Detail != c.wantDetail {
					t.Errorf("%s, want the code %q and the detail %q", document, c.wantCode, c.wantDetail)
				}
				// The SHA-256 of nothing, which the test stored, from FIPS 180-2.
				if !strings.HasPrefix(got.EventID, "agent:charge:") || !strings.HasPrefix(got.IntentHash, "e3b0c44298fc1c14") {
					t.Errorf("%s", document)
				}
			}
		})
	}
}
