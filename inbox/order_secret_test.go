package inbox_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/inbox/seal"
	"github.com/oncegate/oncegate/inbox/sequence"
)

// define registers the order of the source's route, as a process does that starts.
func (p *past) define(t *testing.T, keys *seal.Keyring, words string) error {
	t.Helper()
	route := &p.Source.Routes[0]
	route.Order = sequence.Policy{Mode: sequence.Contiguous, Start: "1"}
	series, err := inbox.RegisterOrders(t.Context(), p.Pool, keys, map[int32]inbox.OrderDefinition{route.ID: {Words: words, Policy: route.Order}})
	route.Series = series[route.ID]
	return err
}

func (p *past) mustDefine(t *testing.T, keys *seal.Keyring, words string) (hash []byte) {
	t.Helper()
	if err := p.define(t, keys, words); err != nil {
		t.Fatal(err)
	}
	return p.Source.Routes[0].Series.KeyHash("stripe", "all", orderMark)
}

// plain counts the rows that know the mark by a hash that anybody can make.
func (p *past) plain(t *testing.T) int {
	t.Helper()
	return p.Count(t, `SELECT (SELECT count(*) FROM stream WHERE key_hash = $1) + (SELECT count(*) FROM effect WHERE sequence_key_hash = $1)`,
		inbox.SequenceKeyHash("stripe", "all", orderMark))
}

// With a keyring no table has a hash by which a guessed order key can be confirmed, and a
// stream stays one stream whatever seals the secret.
func TestOrderKeysAreHashedUnderASecret(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	first := storetest.RingOf(t, storetest.FirstKey+" active")
	hash := p.mustDefine(t, first, "one")
	p.Sealing(t, first)
	p.Accept(t, p.ordered("evt_1", "1"), 0)
	if n := p.plain(t); n != 0 {
		t.Errorf("%d rows have the plain hash of the order key", n)
	}
	if another := newPast(t).mustDefine(t, first, "one"); bytes.Equal(hash, another) {
		t.Error("another installation has the same hash")
	}

	// A rotation, and processes that start before and after it.
	both := storetest.RingOf(t, storetest.FirstKey+"\n"+storetest.SecondKey+" active")
	if again := p.mustDefine(t, both, "one"); !bytes.Equal(hash, again) {
		t.Error("a process with the next sealing key hashes the order key another way")
	}
	if _, err := prune.Reseal(t.Context(), prune.ResealConfig{Pool: p.Pool, Keyring: both}); err != nil {
		t.Fatal(err)
	}
	second := storetest.RingOf(t, storetest.SecondKey+" active")
	if again := p.mustDefine(t, second, "one"); !bytes.Equal(hash, again) {
		t.Error("after the rotation the order key is hashed another way")
	}
	p.Sealing(t, second)
	p.Accept(t, p.ordered("evt_2", "2"), 0)
	if n := p.Count(t, `SELECT count(*) FROM stream`); n != 1 {
		t.Errorf("the order key has %d streams, want 1", n)
	}
	if rows := p.streamsOf(t, second, orderMark); len(rows) != 1 || rows[0].Key != orderMark {
		t.Errorf("found by its key: %+v", rows)
	}
	read, err := inbox.ReadSeries(t.Context(), p.Pool, second, map[int32]inbox.OrderDefinition{p.Source.Routes[0].ID: {Words: "one"}})
	if err != nil || !bytes.Equal(hash, read[p.Source.Routes[0].ID].KeyHash("stripe", "all", orderMark)) {
		t.Errorf("a command hashes the order key another way: %v", err)
	}

	// Who lacks the secret does not go on without it.
	for name, keys := range map[string]*seal.Keyring{"no keyring": nil, "an old one": first} {
		if err := p.define(t, keys, "one"); !errors.Is(err, seal.ErrLost) {
			t.Errorf("%s: %v, want ErrLost", name, err)
		}
	}
	if _, err := inboxtest.Rows(inboxtest.Lister(p.Pool).Streams(t.Context(), inbox.StreamFilter{Key: orderMark})); !errors.Is(err, seal.ErrLost) {
		t.Errorf("looking for a key without the secret: %v, want ErrLost", err)
	}

	// A later definition of the route's order has the same secret, or, if that is lost, one
	// of its own; its streams are other ones in any case.
	later := p.mustDefine(t, second, "two")
	if secrets := p.Count(t, `SELECT count(*) FROM order_secret`); bytes.Equal(later, hash) || secrets != 1 {
		t.Errorf("a later definition: the same hash %t, %d secrets", bytes.Equal(later, hash), secrets)
	}
	p.mustDefine(t, first, "three")
	if secrets := p.Count(t, `SELECT count(*) FROM order_secret`); secrets != 2 {
		t.Errorf("%d secrets, want a second one where the first cannot be opened", secrets)
	}
}

// What is known by plain hashes stays known by them: no stream is cut in two.
func TestStreamsOfBeforeKeepTheirHashes(t *testing.T) {
	t.Parallel()
	keys := storetest.RingOf(t, storetest.FirstKey+" active")
	want := inbox.SequenceKeyHash("stripe", "all", orderMark)
	for name, before := range map[string]func(p *past){
		"a definition that was made without a keyring": func(p *past) { p.mustDefine(t, nil, "one") },
		"streams that are older than definitions": func(p *past) {
			p.Exec(t, `INSERT INTO stream (route_id, key_hash, key_label) VALUES ($1, $2, 'k')`, p.Source.Routes[0].ID, want)
		},
		"a live process of the version before": func(p *past) { p.node(t, 27, time.Second) },
		"one that was silent for a moment":     func(p *past) { p.node(t, 27, 5*time.Minute) },
		"one of a version that does not say":   func(p *past) { p.node(t, nil, time.Second) },
	} {
		p := newPast(t)
		before(p)
		if got := p.mustDefine(t, keys, "one"); !bytes.Equal(got, want) {
			t.Errorf("%s: the order key is hashed another way", name)
		}
	}
	for name, before := range map[string]func(p *past){
		"nothing":                       func(*past) {},
		"a live process of its version": func(p *past) { p.node(t, 28, time.Second) },
		"one of before that is gone":    func(p *past) { p.node(t, 27, time.Hour) },
		"another definition":            func(p *past) { p.mustDefine(t, nil, "zero") },
	} {
		p := newPast(t)
		before(p)
		if got := p.mustDefine(t, keys, "one"); bytes.Equal(got, want) {
			t.Errorf("%s: the order key has its plain hash", name)
		}
	}
}

func (p *past) node(t *testing.T, known any, silent time.Duration) {
	t.Helper()
	p.Exec(t, `INSERT INTO node (id, name, version, roles, configuration, key_ids, key_fingerprints, started_at, heartbeat, schema_known)
		VALUES (gen_random_uuid(), 'old', 'v0', '{work}', 'c', '{}', '{}', now(), now() - $2::interval, $1)`, known, silent)
}

// A program of the version before, which does not say that it knows secrets, is refused
// before it gives an order key a second stream, and only there.
func TestAProgramOfBeforeMakesNoSecondStream(t *testing.T) {
	t.Parallel()
	p := newPast(t)
	p.mustDefine(t, nil, "plain")
	plain := p.Source.Routes[0].Series.ID
	p.mustDefine(t, storetest.RingOf(t, storetest.FirstKey+" active"), "secret")
	secret := p.Source.Routes[0].Series.ID
	other := newPast(t)
	other.mustDefine(t, storetest.RingOf(t, storetest.FirstKey+" active"), "secret")
	for name, c := range map[string]struct {
		p       *past
		sql     string
		args    []any
		refused bool
	}{
		"a stream of the definition":            {p, insertOfBefore, []any{p.Source.Routes[0].ID, "a", secret}, true},
		"a stream of another one":               {p, insertOfBefore, []any{p.Source.Routes[0].ID, "b", plain}, false},
		"one of the first, by a command":        {p, insertOfBefore, []any{p.Source.Routes[0].ID, "c", nil}, false},
		"the same, where the first is secret":   {other, insertOfBefore, []any{other.Source.Routes[0].ID, "d", nil}, true},
		"a start with the definition":           {p, defineOfBefore, []any{p.Source.Routes[0].ID, inbox.OrderDefinition{Words: "secret"}.Digest()}, true},
		"a start with another":                  {p, defineOfBefore, []any{p.Source.Routes[0].ID, inbox.OrderDefinition{Words: "plain"}.Digest()}, false},
		"a start with one that nobody has made": {p, defineOfBefore, []any{p.Source.Routes[0].ID, inbox.OrderDefinition{Words: "new"}.Digest()}, false},
	} {
		conn, err := c.p.Pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), `SELECT set_config('oncegate.sequence_secrets', '', true)`); err != nil {
			t.Fatal(err)
		}
		_, err = tx.Exec(t.Context(), c.sql, c.args...)
		refusal, _ := errors.AsType[*pgconn.PgError](err)
		if refused := refusal != nil && refusal.Code == "55000"; refused != c.refused || err != nil && !refused {
			t.Errorf("%s: %v, want it refused: %t", name, err, c.refused)
		}
		if err := tx.Rollback(context.WithoutCancel(t.Context())); err != nil {
			t.Fatal(err)
		}
		conn.Release()
	}
}

// As the version before writes them.
const (
	insertOfBefore = `
INSERT INTO stream (route_id, key_hash, key_label, definition_id) VALUES ($1, sha256($2::text::bytea), $2, $3)
ON CONFLICT ON CONSTRAINT stream_key DO NOTHING`
	defineOfBefore = `
INSERT INTO order_definition (route_id, digest, salted, words, policy)
SELECT $1, $2, EXISTS (SELECT FROM order_definition o WHERE o.route_id = $1), 'words', '{}'
ON CONFLICT ON CONSTRAINT order_definition_key DO UPDATE
SET policy = excluded.policy, used_at = now()
RETURNING id, salted`
)
