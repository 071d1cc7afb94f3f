package read_test

import (
	"strings"
	"testing"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/session"
)

// The messages of a page are read until they have 32 MiB together, of one that is not sealed only the header counts, and nothing is
// read for somebody who may not see them. A message that cannot be opened says so.
func TestMessagesAreReadWithinABound(t *testing.T) {
	t.Parallel()
	url, schema := inboxtest.Schema(t)
	pool := inboxtest.Open(t, url, schema, session.PoolAdmin, 1)
	inboxtest.Source(t, pool, "shop")
	storetest.Exec(t, pool, `INSERT INTO route (source_id, name, target, kind, digest) VALUES (1, 'letter', 'mail', 'mail', '')`)
	storetest.Exec(t, pool, insertEventOfList)
	storetest.Exec(t, pool, `INSERT INTO effect (id, event_id, route_id, item, state, idempotency_key, route_version, finished_at, rendered, rendered_key_id)
		SELECT gen_random_uuid(), v.id, r.id, n, 'done', 'key', 1, now(), convert_to('To: ' || n || repeat('x', 20000000), 'UTF8'), CASE WHEN n > 3 THEN 1 END
		FROM inbox_event v, route r, generate_series(1, 6) n WHERE v.event_id = 'list' AND r.name = 'letter'`)
	var ids []inbox.ID
	if err := pool.QueryRow(t.Context(), `SELECT array_agg(id ORDER BY item) FROM effect`).Scan(&ids); err != nil {
		t.Fatal(err)
	}
	described := 0
	lister := read.NewLister(pool).WithMessages(func(rendered []byte) (read.Message, bool) {
		described = max(described, len(rendered))
		return read.Message{Recipient: string(rendered[:5]), Subject: string(rendered)}, true
	})
	shut, err := lister.Messages(t.Context(), ids, false)
	if err != nil || len(shut) != 6 || shut[ids[0]] != (read.Message{}) || described > 0 {
		t.Errorf("without the right to see them: %d messages, %d bytes described, %v", len(shut), described, err)
	}
	shown, err := lister.Messages(t.Context(), ids, true)
	if err != nil || len(shown) != 6 || described != 64<<10 {
		t.Fatalf("%d messages, %d bytes described, %v", len(shown), described, err)
	}
	for i, want := range []string{"To: 1", "To: 2", "To: 3", "sealed with key 1", "sealed with key 1", "too large"} {
		m := shown[ids[i]]
		if !strings.Contains(m.Recipient+m.Problem, want) || len(m.Subject) > read.MaxMessageText {
			t.Errorf("message %d is %q %q with %d bytes of subject, want %q", i+1, m.Recipient, m.Problem, len(m.Subject), want)
		}
	}
}
