package read_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/session"
)

// The events with a label are found through its index, and their rows by their ids, for a rare label and for one that most events have, for its
// arguments and for any. What waits for the index is read through an index too, since nothing else is priced well in these sessions.
func TestPlansOfLabels(t *testing.T) {
	t.Parallel()
	for name, analysed := range map[string]bool{"analysed": true, "never analysed": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, schema := inboxtest.Schema(t)
			admin := inboxtest.Open(t, url, schema, session.PoolAdmin, 1)
			inboxtest.Source(t, admin, "stripe")
			storetest.Crowd(t, admin)
			storetest.Exec(t, admin, `INSERT INTO event_label (event_id, name, value)
				SELECT e.id, k.name, convert_to(k.value, 'UTF8') FROM inbox_event e, LATERAL (VALUES ('order', e.event_id), ('all', 'x')) k (name, value)`)
			storetest.Exec(t, admin, `INSERT INTO event_label_batch (id, event_id, name, value)
				SELECT id, ARRAY[id], '{order}', '{waits}' FROM inbox_event LIMIT 200`)
			if analysed {
				storetest.Exec(t, admin, `ANALYZE event_label, event_label_batch`)
			}
			p := newPlanner(t, url, schema)
			for name, f := range map[string]read.EventFilter{
				"rare": {Label: inbox.Label{Name: "order", Value: "many_7"}}, "frequent": {Label: inbox.Label{Name: "all", Value: "x"}}, "absent": {Label: inbox.Label{Name: "no", Value: "x"}},
				"waiting":      {Label: inbox.Label{Name: "order", Value: "waits"}},
				"of a time":    {Label: inbox.Label{Name: "all", Value: "x"}, Since: time.Now().Add(-time.Hour), Until: time.Now().Add(time.Hour)},
				"of a tenant":  {Label: inbox.Label{Name: "all", Value: "x"}, Tenant: "acme"},
				"of all these": {Label: inbox.Label{Name: "all", Value: "x"}, Source: "stripe", Type: "x", State: "done"},
			} {
				if _, err := read.NewLister(p.pool).Events(t.Context(), f); err != nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				var plans [2]strings.Builder
				for _, q := range p.asked.take() {
					if !strings.Contains(q.SQL, "event_label") {
						continue
					}
					for i, plan := range p.plans(t, q) {
						fmt.Fprintln(&plans[i], plan)
						for _, bad := range []string{"Seq Scan on inbox_event", "Seq Scan on effect", "Seq Scan on event_label", "Backward using inbox_event_pkey"} {
							if strings.Contains(plan, bad) {
								t.Errorf("%s: the plan reads a whole table:\n%s\n%s", name, q.SQL, plan)
							}
						}
					}
				}
				for i := range plans {
					for _, want := range []string{"event_label_value_idx", "event_label_batch b"} {
						if !strings.Contains(plans[i].String(), want) {
							t.Errorf("%s: the plans have no %q:\n%s", name, want, &plans[i])
						}
					}
				}
			}
		})
	}
}
