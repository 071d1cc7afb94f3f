package inbox_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/session"
)

// What has verified something last comes first, the document that was fetched last is the
// one that is kept, and what has verified nothing for long goes by itself.
func TestVerifiedKeys(t *testing.T) {
	t.Parallel()
	url, schema := inboxtest.Schema(t)
	pool := inboxtest.Open(t, url, schema, session.PoolAdmin, 2)
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	key := func(n byte, document string, fetched, verified time.Duration) inbox.VerifiedKey {
		return inbox.VerifiedKey{
			Digest: bytes.Repeat([]byte{n}, 32), URL: "https://keys.example/", Document: []byte(document), FetchedAt: noon.Add(fetched), VerifiedAt: noon.Add(verified),
		}
	}
	write := func(k inbox.VerifiedKey) {
		t.Helper()
		if err := inbox.WriteVerifiedKey(t.Context(), pool, &k); err != nil {
			t.Fatal(err)
		}
	}
	holds := func(want ...inbox.VerifiedKey) {
		t.Helper()
		got, err := inbox.ReadVerifiedKeys(t.Context(), pool)
		if err != nil || len(got) != len(want) {
			t.Fatalf("%+v %v, want %+v", got, err, want)
		}
		for i := range got {
			if g, w := got[i], want[i]; !bytes.Equal(g.Digest, w.Digest) || g.URL != w.URL || !bytes.Equal(g.Document, w.Document) || !g.FetchedAt.Equal(w.FetchedAt) || !g.VerifiedAt.Equal(w.VerifiedAt) {
				t.Errorf("%d: %+v, want %+v", i, g, w)
			}
		}
	}
	const day = 24 * time.Hour
	write(key(1, "one", 0, 0))
	write(key(2, "two", 0, time.Hour))
	holds(key(2, "two", 0, time.Hour), key(1, "one", 0, 0))
	write(key(1, "one, later", 2*time.Hour, 2*time.Hour))
	write(key(1, "one, of a slow process", time.Hour, 3*time.Hour))
	holds(key(1, "one, later", 2*time.Hour, 3*time.Hour), key(2, "two", 0, time.Hour))
	write(key(3, "three", 0, 80*day))
	if err := inbox.DeleteVerifiedKey(t.Context(), pool, bytes.Repeat([]byte{3}, 32)); err != nil {
		t.Fatal(err)
	}
	holds(key(1, "one, later", 2*time.Hour, 3*time.Hour), key(2, "two", 0, time.Hour))
	write(key(2, "two", 0, 91*day)) // and so it does not go with the others
	holds(key(2, "two", 0, 91*day))
	if err := inbox.WriteVerifiedKey(t.Context(), pool, &inbox.VerifiedKey{Digest: []byte("short"), Document: []byte("x")}); err == nil {
		t.Error("a digest of another length is written")
	}
}
