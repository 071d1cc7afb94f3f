package inbox_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/inbox/read"
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
	series, err := inbox.ReadSeries(t.Context(), p.Pool, second, map[int32]inbox.OrderDefinition{p.Source.Routes[0].ID: {Words: "one"}})
	if err != nil || !bytes.Equal(hash, series[p.Source.Routes[0].ID].KeyHash("stripe", "all", orderMark)) {
		t.Errorf("a command hashes the order key another way: %v", err)
	}

	// Who lacks the secret does not go on without it.
	for name, keys := range map[string]*seal.Keyring{"no keyring": nil, "an old one": first} {
		if err := p.define(t, keys, "one"); !errors.Is(err, seal.ErrLost) {
			t.Errorf("%s: %v, want ErrLost", name, err)
		}
	}
	if _, err := inboxtest.Rows(inboxtest.Lister(p.Pool).Streams(t.Context(), read.StreamFilter{Key: orderMark})); !errors.Is(err, seal.ErrLost) {
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

// A definition that was made without a keyring keeps its plain hashes, because otherwise its streams would be cut in two.
func TestADefinitionKeepsItsPlainHashes(t *testing.T) {
	t.Parallel()
	keys := storetest.RingOf(t, storetest.FirstKey+" active")
	want := inbox.SequenceKeyHash("stripe", "all", orderMark)
	p := newPast(t)
	p.mustDefine(t, nil, "one")
	if got := p.mustDefine(t, keys, "one"); !bytes.Equal(got, want) {
		t.Error("the same definition hashes the order key another way")
	}
	if got := p.mustDefine(t, keys, "two"); bytes.Equal(got, want) {
		t.Error("another definition has the plain hash of the order key")
	}
}
