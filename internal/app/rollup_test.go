package app_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/rollup"
	"github.com/oncegate/oncegate/internal/session"
)

// Everything that a process does is in the counts when it has stopped, once.
func TestProcessCountsWhatItDoes(t *testing.T) {
	t.Parallel()
	var answers atomic.Int64
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err != nil || strings.Contains(string(body), "evt_dead") {
			w.WriteHeader(http.StatusUnprocessableEntity)
			return
		}
		if answers.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable) // the first is retried
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(target.Close)
	url, schema := inboxtest.Schema(t)
	pool := inboxtest.Open(t, url, schema, session.PoolAdmin, 2)
	cfg := settings(t, url, schema, target.URL)
	cfg.Sources[0].Tenant = "acme"
	a := newApp(t, cfg)
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"evt_1", "evt_2", "evt_2", "evt_dead"} {
		if status := deliver(t, cfg, a, id); status != http.StatusOK {
			t.Fatalf("%s: status %d", id, status)
		}
	}
	response, err := client().Post("http://"+a.PublicAddr().String()+"/in/stripe", "application/json", strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	inboxtest.Until(t, "the effects to be at rest", func() bool {
		var open int
		if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM effect WHERE state NOT IN ('done', 'dead')`).Scan(&open); err != nil {
			t.Fatal(err)
		}
		return open == 0
	})
	if err := a.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	sums, err := rollup.NewReader(pool).Sums(t.Context(), rollup.Filter{Tenant: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	c := sums.Total()
	got := fmt.Sprintf("recorded %d, duplicates %d, refused %d, acknowledged %d, done %d, retried %d, dead %d, attempted %d",
		c.Recorded, c.Duplicates, c.Refused, c.Acknowledged.Count(), c.Done, c.Retried, c.Dead, c.Attempted.Count())
	if want := "recorded 3, duplicates 1, refused 1, acknowledged 4, done 2, retried 1, dead 1, attempted 4"; got != want {
		t.Errorf("counted %s, want %s", got, want)
	}
}
