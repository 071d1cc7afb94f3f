package pause_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/pause"
	"github.com/oncegate/oncegate/inbox/registry"
)

var (
	shop  = pause.Thing{Kind: pause.Source, Name: "shop"}
	mail  = pause.Thing{Kind: pause.Route, Name: "shop/mail"}
	psp   = pause.Thing{Kind: pause.Target, Name: "psp"}
	byAnn = pause.Decision{Actor: "ann", Reason: "the bank is down"}
)

type bundle struct {
	pool       *pgxpool.Pool
	shop, mail int32
}

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{pool: inboxtest.Pool(t)}
	registered, err := registry.Register(t.Context(), b.pool, []registry.Source{
		{Name: "shop", Provider: "test", Class: "default", Tenant: "acme", Routes: []registry.Route{{Name: "mail", Target: "psp", Kind: "forward", Digest: []byte{1}}}},
		{Name: "other", Provider: "test", Class: "default", Routes: []registry.Route{{Name: "mail", Target: "psp", Kind: "forward", Digest: []byte{1}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	b.shop, b.mail = registered["shop"].ID, registered["shop"].Routes["mail"].ID
	return b
}

func (b *bundle) audits(t *testing.T, action inbox.AuditAction, object string) (n int) {
	t.Helper()
	if err := b.pool.QueryRow(t.Context(), `SELECT count(*) FROM audit WHERE action = $1 AND object = $2`, action, object).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// The same pause made by many at once is one pause, and all get the same answer. The audit has it once.
func TestTheSamePauseAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, s := range []pause.Thing{shop, mail, psp} {
		var all sync.WaitGroup
		got := make([]pause.Pause, 8)
		for i := range got {
			all.Go(func() {
				var err error
				if got[i], err = pause.Set(t.Context(), b.pool, s, byAnn); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		for i := range got {
			if got[i] != got[0] || got[i].Since.IsZero() || got[i].By != "ann" || got[i].Thing != s {
				t.Errorf("%s: one caller got %+v, another %+v", s, got[i], got[0])
			}
		}
		again, err := pause.Set(t.Context(), b.pool, s, pause.Decision{Actor: "bob", Reason: "I do not know"})
		if err != nil || again != got[0] {
			t.Errorf("%s: a later caller got %+v, %v; want the pause of the first, %+v", s, again, err, got[0])
		}
		if n := b.audits(t, inbox.AuditPause, string(s.Kind)+"/"+s.Name); n != 1 {
			t.Errorf("%s: the audit has %d pauses, want 1", s, n)
		}
	}
}

// A pause ends once, and can begin again.
func TestResume(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first, err := pause.Set(t.Context(), b.pool, psp, byAnn)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := pause.Lift(t.Context(), b.pool, psp, byAnn); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := pause.List(t.Context(), b.pool, ""); err != nil || len(all) != 0 {
		t.Errorf("after the resume, paused is %v, %v", all, err)
	}
	if n := b.audits(t, inbox.AuditResume, "target/psp"); n != 1 {
		t.Errorf("the audit has %d resumes, want 1", n)
	}
	second, err := pause.Set(t.Context(), b.pool, psp, byAnn)
	if err != nil || !second.Since.After(first.Since) {
		t.Errorf("the second pause is %+v, %v; the first was %+v", second, err, first)
	}
}

func TestWhatDoesNotExistIsNotPaused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, s := range []pause.Thing{{pause.Source, "nobody"}, {pause.Route, "shop/nobody"}, {pause.Route, "nobody/mail"}, {pause.Route, "mail"}, {"stream", "x"}} {
		if _, err := pause.Set(t.Context(), b.pool, s, byAnn); !errors.Is(err, pause.ErrUnknown) {
			t.Errorf("pausing %s: %v, want ErrUnknown", s, err)
		}
		if err := pause.Lift(t.Context(), b.pool, s, byAnn); !errors.Is(err, pause.ErrUnknown) {
			t.Errorf("resuming %s: %v, want ErrUnknown", s, err)
		}
	}
	if _, err := pause.Set(t.Context(), b.pool, shop, pause.Decision{Actor: "ann"}); !errors.Is(err, inbox.ErrUnexplained) {
		t.Errorf("without a reason: %v", err)
	}
}

// A tenant sees the pauses of its own sources and routes, and those of targets.
func TestAList(t *testing.T) {
	t.Parallel()
	b := setup(t)
	others := pause.Thing{Kind: pause.Route, Name: "other/mail"}
	for _, s := range []pause.Thing{shop, mail, others, psp} {
		if _, err := pause.Set(t.Context(), b.pool, s, byAnn); err != nil {
			t.Fatal(err)
		}
	}
	all, err := pause.List(t.Context(), b.pool, "")
	if err != nil || len(all) != 4 || all[0].Thing != shop || all[0].Reason != byAnn.Reason {
		t.Errorf("all: %+v, %v", all, err)
	}
	theirs, err := pause.List(t.Context(), b.pool, "acme")
	if err != nil || len(theirs) != 3 || theirs.Of(pause.Route, "other/mail") != nil || theirs.Of(pause.Target, "psp") == nil {
		t.Errorf("of a tenant: %+v, %v", theirs, err)
	}
	if got := all.OfRoute("shop", "mail", "psp"); got == nil || got.Thing != mail {
		t.Errorf("the route waits for %+v, want its own pause", got)
	}
	if got := all.OfRoute("shop", "post", "psp"); got == nil || got.Thing != psp {
		t.Errorf("another route of the target waits for %+v, want the target's", got)
	}
	if got := all.OfRoute("shop", "post", "post"); got != nil {
		t.Errorf("a route that is not paused waits for %+v", got)
	}
}

// Each process learns of a pause and of its end by reading the table, and keeps what it knows while it cannot read it.
func TestWatch(t *testing.T) {
	t.Parallel()
	b := setup(t)
	w := pause.NewWatch(b.pool)
	look := func(begun, ended int) {
		t.Helper()
		first, last, err := w.Look(t.Context())
		if err != nil || len(first) != begun || len(last) != ended {
			t.Errorf("begun %v, ended %v, %v; want %d and %d", first, last, err, begun, ended)
		}
	}
	look(0, 0)
	for _, s := range []pause.Thing{shop, psp} {
		if _, err := pause.Set(t.Context(), b.pool, s, byAnn); err != nil {
			t.Fatal(err)
		}
	}
	look(2, 0)
	look(0, 0)
	if !w.Source(b.shop) || w.Source(b.shop+1) || !w.Route(b.mail, "psp") || w.Route(b.mail, "post") {
		t.Error("it does not know that the source and the target are paused, and nothing else")
	}
	if err := pause.Lift(t.Context(), b.pool, psp, byAnn); err != nil {
		t.Fatal(err)
	}
	if _, err := pause.Set(t.Context(), b.pool, mail, byAnn); err != nil {
		t.Fatal(err)
	}
	look(1, 1)
	if !w.Route(b.mail, "psp") || w.Route(b.mail+1, "psp") {
		t.Error("it does not know that the route alone is paused")
	}
	// Resumed and paused again between two readings: what waited must run in between, or nobody would wake it later.
	if err := pause.Lift(t.Context(), b.pool, mail, byAnn); err != nil {
		t.Fatal(err)
	}
	if _, err := pause.Set(t.Context(), b.pool, mail, byAnn); err != nil {
		t.Fatal(err)
	}
	look(1, 1)
	b.pool.Close()
	if _, _, err := w.Look(t.Context()); err == nil || !w.Source(b.shop) {
		t.Errorf("without the database: %v, and the source is paused: %t", err, w.Source(b.shop))
	}
	if none := (*pause.Watch)(nil); none.Source(b.shop) || none.Route(b.mail, "psp") {
		t.Error("no watch knows something")
	}
}
