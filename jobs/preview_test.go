package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/expression"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
)

// What a preview says of a claim is what the worker then does with it: the state
// and reason it settles with, or the bytes that reach the target.
func TestAPreviewIsWhatTheWorkerDoes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(tb testing.TB, r *jobs.Route)
		sql    string // before the claim
		render func(*effect.Call) ([]byte, error)
		want   string
	}{
		"as received":  {want: `sends {"paid":1}`},
		"mapped":       {change: mapping(`{"n": body.paid}`), want: `sends {"n":1}`},
		"rendered":     {render: func(*effect.Call) ([]byte, error) { return []byte("made"), nil }, want: "sends made"},
		"stored":       {change: mapping(`body.paid`), sql: `UPDATE effect SET rendered = 'kept'`, want: "sends kept"},
		"may be there": {change: mapping(`body.paid`), sql: `UPDATE effect SET unknown_since = now()`, want: `sends 1`},
		"not rendered": {render: func(*effect.Call) ([]byte, error) { return nil, errors.New("no") }, want: "dead render_failed"},
		"panics":       {render: func(*effect.Call) ([]byte, error) { panic("no") }, want: "dead render_failed"},
		"not mapped":   {change: mapping(`body.lost`), want: "dead mapping_failed"},
		"unwanted":     {change: condition(`body.paid > 1`), want: "skipped condition_false"},
		"undecided":    {change: condition(`body.lost > 1`), want: "dead mapping_failed"},
		"lost before it was asked": {
			change: condition(`body.paid > 1`), sql: `UPDATE effect SET unknown_since = now()`, want: "skipped condition_false",
		},
		"may be there by another condition": {
			change: condition(`body.paid > 1`), sql: `UPDATE effect SET unknown_since = now(), route_version = route_version + 1`, want: "indeterminate condition_false",
		},
		"may be there, and wanted": {
			change: condition(`body.paid == 1`), sql: `UPDATE effect SET unknown_since = now(), route_version = route_version + 1`, want: `sends {"paid":1}`,
		},
		"no key": {change: func(tb testing.TB, r *jobs.Route) {
			r.Key = &expression.Recipe{Version: 1, Fields: []*expression.Program{compile(tb, `body.lost`, expression.Value)}}
		}, want: "dead mapping_failed"},
		"body gone":     {sql: `DELETE FROM inbox_body`, want: "dead body_gone"},
		"one of a list": {change: listOf(`["a"]`), want: "sends to a"},
		"an empty list": {change: listOf(`[]`), want: "skipped condition_false"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			var sent atomic.Value
			s := &sink{idempotent: true, render: c.render, answer: func(_ context.Context, call *effect.Call) effect.Result {
				body := call.Event.Body
				if call.Rendered != nil {
					body = call.Rendered
				}
				sent.Store(string(body))
				return effect.Result{Outcome: effect.Done}
			}}
			id := b.admit(repeatable, 1)[0]
			if c.sql != "" {
				b.exec(c.sql)
			}
			routes := b.changed(func(r *jobs.Route) {
				r.Version = 1
				if c.change != nil {
					c.change(t, r)
				}
			})
			claim := b.claim(b.store("node-1"), id)
			previewer := jobs.Previewer{Routes: routes, Senders: senders(s)}
			p := previewer.Preview(claim)
			told := fmt.Sprintf("%s %s", p.State, p.Reason)
			if p.State == "" {
				told = "sends " + string(p.Request.Body)
			}
			if s.calls.Load() != 0 {
				t.Error("the preview sent something")
			}
			b.exec(`UPDATE effect SET state = 'pending', lease_token = NULL, lease_until = NULL, attempts = 0, next_at = now()`)
			b.client(jobs.Config{Senders: senders(s), Routes: routes})
			b.eventually("an end", func() bool {
				state := inbox.EffectState(b.row(id).State)
				return state.Settled() || state.AtRest()
			})
			did := fmt.Sprintf("%s %s", b.row(id).State, b.row(id).Reason)
			if body, ok := sent.Load().(string); ok {
				did = "sends " + body
			}
			if told != c.want || did != c.want {
				t.Errorf("told %q, did %q, want %q", told, did, c.want)
			}
		})
	}
}

func mapping(source string) func(testing.TB, *jobs.Route) {
	return func(tb testing.TB, r *jobs.Route) {
		tb.Helper()
		r.Map = expression.NewMapping(compile(tb, source, expression.Value))
	}
}

func condition(source string) func(testing.TB, *jobs.Route) {
	return func(tb testing.TB, r *jobs.Route) {
		tb.Helper()
		r.When = compile(tb, source, expression.Condition)
	}
}

func listOf(source string) func(testing.TB, *jobs.Route) {
	return func(tb testing.TB, r *jobs.Route) {
		tb.Helper()
		r.List = &jobs.List{Items: compile(tb, source, expression.Texts), Render: func(_ *effect.Call, item string) ([]byte, error) {
			return []byte("to " + item), nil
		}}
	}
}
