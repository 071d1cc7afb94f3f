package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/inbox/seal"
	"github.com/oncegate/oncegate/inbox/sequence"
	"github.com/oncegate/oncegate/internal/logtest"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/sql"
)

const (
	oldKey = "1 AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	newKey = "2 ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8="
)

func keyring(tb testing.TB, text string) *seal.Keyring {
	tb.Helper()
	keys, err := seal.New(func() ([]byte, error) { return []byte(text), nil }, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return keys
}

func (b *bundle) reseal(keys *seal.Keyring) prune.ResealProgress {
	b.tb.Helper()
	end, err := prune.Reseal(b.tb.Context(), prune.ResealConfig{Pool: b.pool, Keyring: keys})
	if err != nil {
		b.tb.Fatal(err)
	}
	return end
}

// stubborn stores what it sends and never succeeds.
type stubborn struct {
	sink
	sentMu sync.Mutex
	sent   []string
}

func newStubborn() *stubborn {
	s := &stubborn{}
	s.sink = sink{idempotent: true, render: func(call *effect.Call) ([]byte, error) { return fmt.Appendf(nil, "attempt %d", call.Attempt), nil }}
	s.sink.answer = func(_ context.Context, call *effect.Call) effect.Result {
		s.sentMu.Lock()
		defer s.sentMu.Unlock()
		s.sent = append(s.sent, string(call.Rendered))
		return effect.Result{Outcome: effect.Retry, Reason: "status_503", Excerpt: "try later"}
	}
	return s
}

func (s *stubborn) all() []string {
	s.sentMu.Lock()
	defer s.sentMu.Unlock()
	return slices.Clone(s.sent)
}

// What was recorded in plain, was sealed, resealed and lost its key for a while is
// carried out with the same bytes in the end; without the key an effect waits and
// spends no attempt, and those beside it go on.
func TestALostKeyStopsOnlyWhatItSeals(t *testing.T) {
	t.Parallel()
	b := setup(t)
	sealed := b.admit(repeatable, 3)
	if end := b.reseal(keyring(t, oldKey+" active")); end.Resealed != 1 || end.Unreadable != 0 {
		t.Fatalf("resealed %+v, want the one body", end)
	}
	inside := b.admit(within, 2)
	b.reseal(keyring(t, oldKey+" active"))
	plain := b.admit(repeatable, 3)

	b.keyring = keyring(t, newKey+" active")
	s := &sink{idempotent: true}
	postponed := newPostponed()
	c := b.client(jobs.Config{Senders: senders(s), Observe: postponed.observe})
	for _, id := range append(sealed, inside...) {
		b.eventually("the effect is put off", func() bool { return postponed.of(id) > 0 })
		if got := b.row(id); got.State != string(inbox.EffectPending) || got.Attempts != 0 || got.Reason != string(reasons.KeyMissing) {
			t.Errorf("%s is %s by %q after %d attempts, want it pending by %s after none", id, got.State, got.Reason, got.Attempts, reasons.KeyMissing)
		}
		if n := len(b.outcomes(id)); n != 0 {
			t.Errorf("%s has %d attempts recorded", id, n)
		}
		if s.got(id) != 0 {
			t.Errorf("%s was sent without its body", id)
		}
	}
	for _, id := range plain {
		b.eventuallyState(id, inbox.EffectDone)
	}
	if _, err := read.NewLister(b.pool).WithKeyring(b.keyring).Body(t.Context(), sealed[0]); !errors.Is(err, seal.ErrLost) {
		t.Errorf("reading the body gave %v, want ErrLost", err)
	}
	b.stop(c)

	// Nothing of it can be sealed again, and nothing is destroyed.
	if end := b.reseal(b.keyring); end.Unreadable != 3 || !slices.Equal(end.MissingKeys, []int32{1}) {
		t.Errorf("resealed %+v, want both bodies, and the secret under which hashes are stored, unreadable for want of key 1", end)
	}
	b.keyring = keyring(t, oldKey+"\n"+newKey+" active")
	if end := b.reseal(b.keyring); end.Unreadable != 0 || end.Resealed != 3 {
		t.Errorf("resealed %+v, want both bodies and the secret", end)
	}
	body, err := read.NewLister(b.pool).WithKeyring(keyring(t, newKey+" active")).Body(t.Context(), sealed[0])
	if err != nil || string(body) != `{"paid":1}` {
		t.Errorf("the body is %q, %v", body, err)
	}
	b.due()
	b.client(jobs.Config{Senders: senders(s)})
	for _, id := range append(sealed, inside...) {
		b.eventuallyState(id, inbox.EffectDone)
	}
}

// postponed counts by effect how often it was put off for want of a key.
type postponed struct {
	mu sync.Mutex
	n  map[inbox.ID]int
}

func newPostponed() *postponed { return &postponed{n: map[inbox.ID]int{}} }

func (p *postponed) observe(r jobs.Report) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Reason == reasons.KeyMissing {
		p.n[r.Effect]++
	}
}

func (p *postponed) of(id inbox.ID) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.n[id]
}

// due makes what was put off due now.
func (b *bundle) due() {
	b.tb.Helper()
	b.exec(`UPDATE effect SET next_at = now() WHERE state IN ('pending', 'retry')`)
	b.exec(`UPDATE river_job SET scheduled_at = now(), state = 'available' WHERE state IN ('scheduled', 'available')`)
}

// A process that lacks the key of an effect never ends it, whatever the effect's kind,
// order, key or earlier attempts: the effect spends no attempt, and one line a minute
// says for want of which key it waits.
func TestAMissingKeyNeverEndsAnEffect(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		route   string
		ordered bool
		keyed   bool
		retried bool
		grouped bool
	}{
		"Outside":         {route: repeatable},
		"OutsideOnce":     {route: once},
		"OutsideRetried":  {route: repeatable, retried: true},
		"OutsideKeyed":    {route: repeatable, keyed: true},
		"InDatabase":      {route: within},
		"InDatabaseKeyed": {route: within, keyed: true},
		"Grouped":         {route: within, grouped: true},
		"GroupedKeyed":    {route: within, grouped: true, keyed: true},
		"GroupedOrdered":  {route: within, grouped: true, ordered: true},
		"OutsideOrdered":  {route: repeatable, ordered: true},
		"InsideOrdered":   {route: within, ordered: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			if c.ordered {
				b.order = map[string]sequence.Policy{c.route: {Mode: sequence.Contiguous, Start: "1"}}
			}
			ids := b.admit(c.route, 5)
			before := 0
			if c.retried {
				before = 2
				b.exec(`UPDATE effect SET state = 'retry', attempts = 2`)
			}
			if c.ordered {
				for i, id := range ids {
					b.exec(`UPDATE effect SET sequence_key_hash = sha256($2), sequence_number = 1 WHERE id = $1`, id, []byte{byte(i)})
				}
			}
			b.reseal(keyring(t, oldKey+" active"))
			routes := b.config(jobs.Config{}).Routes
			if c.keyed {
				routes = b.keyed("body.paid")
			}
			var text atomic.Value
			text.Store(newKey + " active")
			keys, err := seal.New(func() ([]byte, error) { return []byte(text.Load().(string)), nil }, nil)
			if err != nil {
				t.Fatal(err)
			}
			b.keyring = keys
			postponed := newPostponed()
			var log logtest.Buffer
			cfg := jobs.Config{Routes: routes, Observe: postponed.observe, Logger: slog.New(slog.NewTextHandler(&log, nil))}
			if c.grouped {
				b.exec(`CREATE FUNCTION apply_event(event jsonb) RETURNS void LANGUAGE sql AS ''`)
				kind, err := sql.New(sql.Config{Call: "apply_event"})
				if err != nil {
					t.Fatal(err)
				}
				cfg.Transactionals = map[string]effect.Transactional{within: kind}
			}
			client := b.client(cfg)
			for _, id := range ids {
				b.eventually("the effect is put off", func() bool {
					return postponed.of(id) > 0 || !inbox.EffectState(b.row(id).State).Waiting() && b.row(id).State != "claimed"
				})
				if got := b.row(id); !inbox.EffectState(got.State).Waiting() || got.Attempts != before {
					t.Fatalf("%s is %s by %q after %d attempts, want it waiting after %d", id, got.State, got.Reason, got.Attempts, before)
				}
			}
			if said := strings.Count(log.String(), "keys=[1]"); said != 1 || strings.Contains(log.String(), "effect postponed") {
				t.Errorf("the log names the missing key %d times, want once a minute and nothing beside it:\n%s", said, log.String())
			}
			if got := client.MissingKeys(); len(got) != 1 || got[0].ID != 1 || got[0].Effects < uint64(len(ids)) {
				t.Errorf("the missing keys are %+v, want key 1 for at least %d effects", got, len(ids))
			}
			text.Store(oldKey + "\n" + newKey + " active")
			if err := keys.Reload(); err != nil {
				t.Fatal(err)
			}
			for _, id := range ids {
				b.eventually("the effect is done", func() bool {
					b.due()
					state := inbox.EffectState(b.row(id).State)
					return state == inbox.EffectDone || c.keyed && state == inbox.EffectDuplicate
				})
			}
		})
	}
}

// What was rendered before the first send is sealed too, and sent again as it was.
func TestRenderedIsSealedAndSentAsItWas(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.keyring = keyring(t, oldKey+" active")
	id := b.admit(repeatable, 1)[0]
	s := newStubborn()
	c := b.client(jobs.Config{Senders: map[string]effect.Sender{repeatable: s}})
	b.eventuallyState(id, inbox.EffectDead)
	b.stop(c)
	if n := b.count(`SELECT count(*) FROM effect WHERE rendered_key_id = 1`); n != 1 {
		t.Fatalf("%d rendered requests are sealed, want 1", n)
	}
	if n := b.count(`SELECT count(*) FROM effect_attempt WHERE excerpt IS NULL AND excerpt_key_id = 1`); n != b.retry.Attempts {
		t.Errorf("%d excerpts are sealed, want %d", n, b.retry.Attempts)
	}
	detail, err := read.NewLister(b.pool).WithKeyring(b.keyring).Effect(t.Context(), id)
	if err != nil || detail.AttemptRows[0].Excerpt != "try later" {
		t.Errorf("the first excerpt is %+v, %v", detail, err)
	}
	detail, err = read.NewLister(b.pool).Effect(t.Context(), id)
	if err != nil || detail.AttemptRows[0].Excerpt != "(effect_attempt.excerpt is sealed with key 1: its key is not in the keyring)" {
		t.Errorf("without the key it is %+v, %v", detail, err)
	}
	before := s.all()
	b.keyring = keyring(t, oldKey+"\n"+newKey+" active")
	b.reseal(b.keyring)
	if n := b.count(`SELECT count(*) FROM effect WHERE rendered_key_id = 2`); n != 1 {
		t.Fatalf("%d rendered requests are resealed, want 1", n)
	}
	if _, err := b.store("node-2").Rearm(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	b.client(jobs.Config{Senders: map[string]effect.Sender{repeatable: s}})
	b.eventually("another attempt", func() bool { return len(s.all()) > len(before) })
	for i, bytes := range s.all() {
		if bytes != "attempt 1" {
			t.Errorf("attempt %d sent %q, not what was rendered first", i+1, bytes)
		}
	}
}

// Deliveries and effects go on while everything is resealed; nobody's change is
// overwritten with what was read before it.
func TestResealBesideWork(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.keyring = keyring(t, oldKey+"\n"+newKey+" active")
	b.reseal(keyring(t, oldKey+" active"))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if _, err := prune.Reseal(ctx, prune.ResealConfig{Pool: b.pool, Keyring: b.keyring}); err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
		}
	}()
	b.client(jobs.Config{})
	var ids []inbox.ID
	for range 10 {
		ids = append(ids, b.admit(repeatable, 20)...)
	}
	for _, id := range ids {
		b.eventuallyState(id, inbox.EffectDone)
	}
	cancel()
	<-done
	if end := b.reseal(b.keyring); end.Unreadable != 0 {
		t.Errorf("unreadable: %+v", end)
	}
	if n := b.count(`SELECT count(*) FROM inbox_body WHERE key_id IS DISTINCT FROM 2`); n != 0 {
		t.Errorf("%d bodies are not under the active key", n)
	}
	inboxtest.Until(t, "usage", func() bool {
		usage, err := prune.KeyUsages(t.Context(), b.pool)
		return err == nil && len(usage) > 0 && usage[0].Key == 2
	})
}
