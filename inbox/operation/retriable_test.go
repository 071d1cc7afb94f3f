package operation_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/operation"
)

// A caller reads `retriable` as "call again under a new key": it must be false
// wherever that repeats what has happened, or what the same call can only meet again.
// It asks about the call, rearming about the target: the two have tables of their own.
func TestRetriableIsAboutTheCall(t *testing.T) {
	t.Parallel()
	o := storetest.NewOperated(t, 2)
	owner := o.Event(t, "agent:charge:owner", "dead")
	for name, c := range map[string]struct {
		states []string
		change string // of the second effect, or the only one
		want   bool
	}{
		"the target was down":         {[]string{"dead"}, `reason = 'attempts_exhausted', last_code = '503'`, true},
		"the configuration was wrong": {[]string{"dead"}, `reason = 'status_4xx', last_code = '403'`, true},
		"the body was pruned":         {[]string{"dead"}, `reason = 'body_gone'`, true},
		"unprocessable":               {[]string{"dead"}, `reason = 'status_4xx', last_code = '422'`, false},
		"too large":                   {[]string{"dead"}, `reason = 'status_4xx', last_code = '413'`, false},
		"not mapped":                  {[]string{"dead"}, `reason = 'mapping_failed'`, false},
		"not rendered":                {[]string{"dead"}, `reason = 'render_failed'`, false},
		"not parsed by the database":  {[]string{"dead"}, `reason = 'sql_error', last_code = '22P02'`, false},
		"a constraint":                {[]string{"dead"}, `reason = 'sql_error', last_code = '23503'`, true},
		"discarded, paid by hand":     {[]string{"dead"}, `state = 'skipped', reason = 'discarded', finished_at = now()`, false},
		"of an owner, unprocessable": {[]string{"dead"}, `state = 'duplicate', reason = NULL, finished_at = now(),
			duplicate_of = (SELECT f.id FROM effect f WHERE f.event_id = '` + owner.String() + `')`, false},
		"some of it happened":            {[]string{"done", "dead"}, `reason = 'attempts_exhausted', last_code = '503'`, false},
		"one of two can only fail again": {[]string{"dead", "dead"}, `reason = 'mapping_failed'`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Exec(t, o.Pool, `UPDATE effect SET reason = 'status_4xx', last_code = '422' WHERE event_id = $1`, owner)
			id := o.Event(t, "agent:charge:"+name, c.states...)
			storetest.Exec(t, o.Pool, `UPDATE effect SET `+c.change+` WHERE event_id = $1 AND route_id = $2`, id, o.Routes[len(c.states)-1])
			document, ok, err := o.Ops.Result(t.Context(), id)
			if err != nil || !ok {
				t.Fatalf("%t, %v", ok, err)
			}
			var got struct{ Retriable bool }
			if err := json.Unmarshal(document, &got); err != nil {
				t.Fatal(err)
			}
			if got.Retriable != c.want {
				t.Errorf("retriable is %t, want %t: %s", got.Retriable, c.want, document)
			}
		})
	}
}

// TestRetriableCountsWhatIsNotListed: an answer lists some effects, and speaks of all.
func TestRetriableCountsWhatIsNotListed(t *testing.T) {
	t.Parallel()
	o := storetest.NewOperated(t, 1)
	id := o.Event(t, "agent:charge:many", "dead")
	storetest.Exec(t, o.Pool, `INSERT INTO effect (id, event_id, route_id, item, route_version, idempotency_key, state, reason)
		SELECT gen_random_uuid(), $1, $2, n, 1, 'key', 'dead', CASE WHEN n = $3 THEN 'mapping_failed' ELSE 'connect' END FROM generate_series(1, $3) n`,
		id, o.Routes[0], operation.MaxOutcomeEffects+1)
	document, ok, err := o.Ops.Result(t.Context(), id)
	if err != nil || !ok || !strings.Contains(string(document), `"retriable":false`) {
		t.Errorf("%t, %v: %.200s", ok, err, document)
	}
}
