package relay_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/relay"
	"github.com/oncegate/oncegate/internal/advisory"
	"github.com/oncegate/oncegate/internal/logtest"
)

// A session that takes the lock of a source delays that source and no other, and the log names the session
// once it has had the lock for longer than any relay.
func TestRelayNamesWhoHasItsSource(t *testing.T) {
	t.Parallel()
	o := newOutbox(t)
	free := inboxtest.Source(t, o.Pool, "free")
	storetest.Exec(t, o.Pool, `UPDATE source SET emit = true`)
	storetest.Exec(t, o.Pool, emit, "a", `{}`)
	storetest.Exec(t, o.Pool, `SELECT emit('free', 'b', 'order.paid', '{}')`)
	stranger, err := o.Work.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stranger.Exec(t.Context(), `SELECT set_config('application_name', 'a stranger', true), pg_advisory_xact_lock($1, hashtext($2))`,
		advisory.Relay, o.Schema+"/orders"); err != nil {
		t.Fatal(err)
	}
	var log logtest.Buffer
	now := time.Now()
	clock := inbox.NewClock(o.Pool, func() time.Time { return now })
	r, err := relay.New(relay.Config{
		Pool: o.Work, Gate: o.Gate, Clock: clock, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Sources: map[string]*inbox.Source{o.Source.Name: o.Source, free.Name: free},
	})
	if err != nil {
		t.Fatal(err)
	}
	storetest.RunRelay(t, r)
	o.Want(t, 1, 1)
	if log.String() != "" {
		t.Errorf("the log says %q at once", log.String())
	}
	now = now.Add(11 * time.Second)
	storetest.RunRelay(t, r)
	for _, want := range []string{"source=orders", `application="a stranger"`, "role=", "address=127.0.0.1", "pid="} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log says %q, want %s", log.String(), want)
		}
	}
	if err := stranger.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	storetest.RunRelay(t, r)
	o.Want(t, 2, 0)
}
