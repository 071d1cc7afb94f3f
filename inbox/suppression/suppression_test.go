package suppression_test

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/inbox/seal"
	"github.com/oncegate/oncegate/inbox/suppression"
)

func TestNormalize(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"ann@example.com": "ann@example.com", "Ann@Example.COM": "ann@example.com", "Ann <ANN@example.com>": "ann@example.com",
		" ann@example.com ": "ann@example.com", "ann+news@example.com": "ann+news@example.com", "ann@BÜCHER.example": "ann@xn--bcher-kva.example",
		`"ann"@example.com`: "ann@example.com", "ann@xn--bcher-kva.example": "ann@xn--bcher-kva.example",
	} {
		if got, err := suppression.Normalize(address); err != nil || got != want {
			t.Errorf("%q: %q %v, want %q", address, got, err, want)
		}
	}
	for _, address := range []string{"", "ann", "@example.com", "ann@", "a@b.example, c@d.example", "ann@example.com\r\nBcc: x@y.example"} {
		if got, err := suppression.Normalize(address); !errors.Is(err, suppression.ErrAddress) {
			t.Errorf("%q: %q %v", address, got, err)
		}
	}
}

var by = suppression.Decision{Actor: "ann", Reason: "a test"}

func newStore(tb testing.TB, cfg suppression.Config) *suppression.Store {
	tb.Helper()
	s, err := suppression.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func keyring(tb testing.TB, id int32) *seal.Keyring {
	tb.Helper()
	ring := (*seal.Ring)(nil).With(seal.NewKey(id), true)
	keys, err := seal.New(func() ([]byte, error) { return ring.Text(), nil }, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return keys
}

func suppressed(tb testing.TB, s *suppression.Store, target, address string) bool {
	tb.Helper()
	yes, err := s.Suppressed(tb.Context(), target, address)
	if err != nil {
		tb.Fatal(err)
	}
	return yes
}

func add(tb testing.TB, s *suppression.Store, entries ...suppression.Entry) suppression.Added {
	tb.Helper()
	out, err := s.Add(tb.Context(), entries, by)
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

func TestSuppressed(t *testing.T) {
	t.Parallel()
	pool := inboxtest.Pool(t)
	s := newStore(t, suppression.Config{Pool: pool})
	if suppressed(t, s, "receipts", "ann@example.com") {
		t.Error("suppressed before anybody said so")
	}
	got := add(t, s,
		suppression.Entry{Address: "Ann <Ann@Example.com>", Reason: suppression.Bounce}, suppression.Entry{Address: "ann@example.com", Reason: suppression.Manual},
		suppression.Entry{Address: "bob@example.com", Target: "news", Reason: suppression.Unsubscribe})
	if got != (suppression.Added{Added: 2, Known: 1}) {
		t.Errorf("%+v", got)
	}
	for _, c := range []struct {
		target, address string
		want            bool
	}{
		{"receipts", "ANN@example.com", true}, {"news", "ann@example.com", true}, {"news", "bob@example.com", true},
		{"receipts", "bob@example.com", false}, {"receipts", "cid@example.com", false},
	} {
		if got := suppressed(t, s, c.target, c.address); got != c.want {
			t.Errorf("%s to %s: %t", c.target, c.address, got)
		}
	}
	if got := add(t, s, suppression.Entry{Address: "ann@example.com", Reason: suppression.Complaint}); got != (suppression.Added{Known: 1}) {
		t.Errorf("a second time: %+v", got)
	}
	if err := s.Remove(t.Context(), "news", "ann@example.com", by); !errors.Is(err, inbox.ErrNotFound) {
		t.Errorf("removing for a target what holds for all: %v", err)
	}
	if err := s.Remove(t.Context(), "", "ANN@example.com", by); err != nil || suppressed(t, s, "news", "ann@example.com") {
		t.Errorf("removed: %v", err)
	}
	var audit []string
	rows, err := pool.Query(t.Context(), `SELECT action || ' ' || actor || ' ' || coalesce(before::text, '') || coalesce(after::text, '') FROM audit ORDER BY id`)
	if err == nil {
		audit, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err != nil || len(audit) != 3 {
		t.Fatalf("%q %v", audit, err)
	}
	for _, line := range audit {
		if bytes.Contains([]byte(line), []byte("example.com")) {
			t.Errorf("the audit names the address: %s", line)
		}
	}
	if _, err := s.Add(t.Context(), []suppression.Entry{{Address: "x@example.com", Reason: suppression.Manual}}, suppression.Decision{}); !errors.Is(err, inbox.ErrUnexplained) {
		t.Errorf("without a reason: %v", err)
	}
	if _, err := s.Add(t.Context(), []suppression.Entry{{Address: "x@example.com", Reason: "whim"}}, by); err == nil {
		t.Error("an unknown reason is taken")
	}
}

func TestExpiry(t *testing.T) {
	t.Parallel()
	pool := inboxtest.Pool(t)
	s := newStore(t, suppression.Config{Pool: pool})
	soon, later := time.Now().Add(time.Hour), time.Now().Add(48*time.Hour)
	entry := suppression.Entry{Address: "ann@example.com", Reason: suppression.Bounce, Expires: later}
	add(t, s, entry)
	entry.Expires = soon
	if got := add(t, s, entry); got != (suppression.Added{Known: 1}) {
		t.Errorf("a shorter time: %+v", got)
	}
	if row, err := s.Check(t.Context(), "", "ann@example.com"); err != nil || row == nil || row.ExpiresAt == nil || row.ExpiresAt.Sub(later).Abs() > time.Millisecond {
		t.Errorf("%+v %v", row, err)
	}
	if _, err := pool.Exec(t.Context(), `UPDATE suppression SET expires_at = now() - interval '1 second'`); err != nil {
		t.Fatal(err)
	}
	if rows, err := inboxtest.Rows(s.List(t.Context(), suppression.Filter{})); err != nil || len(rows) != 0 || suppressed(t, s, "", "ann@example.com") {
		t.Errorf("expired, and yet %+v %v", rows, err)
	}
	entry.Expires, entry.Reason = time.Time{}, suppression.Complaint
	if got := add(t, s, entry); got != (suppression.Added{Extended: 1}) || !suppressed(t, s, "", "ann@example.com") {
		t.Errorf("for ever: %+v", got)
	}
	entry.Expires, entry.Reason = later, suppression.Bounce
	add(t, s, entry)
	if row, err := s.Check(t.Context(), "", "ann@example.com"); err != nil || row == nil || row.ExpiresAt != nil || row.Reason != suppression.Complaint {
		t.Errorf("a bounce for two days shortened a complaint: %+v %v", row, err)
	}
}

func TestListPages(t *testing.T) {
	t.Parallel()
	s := newStore(t, suppression.Config{Pool: inboxtest.Pool(t)})
	for i := range 25 {
		add(t, s, suppression.Entry{Address: fmt.Sprintf("u%d@example.com", i), Reason: suppression.Reasons()[i%2]})
	}
	seen := map[string]bool{}
	for cursor := ""; ; {
		page, err := s.List(t.Context(), suppression.Filter{Cursor: cursor, Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range page.Data {
			seen[row.Address] = true
		}
		if cursor = page.Next; !page.HasMore {
			break
		}
	}
	rows, err := inboxtest.Rows(s.List(t.Context(), suppression.Filter{Reason: suppression.Bounce, Limit: 1000}))
	if len(seen) != 25 || err != nil || len(rows) != 13 {
		t.Errorf("%d on all pages, %d bounces, %v", len(seen), len(rows), err)
	}
}

// What the tables hold must not give an address away: neither read nor guessed.
func TestSealed(t *testing.T) {
	t.Parallel()
	pool := inboxtest.Pool(t)
	plain := newStore(t, suppression.Config{Pool: pool})
	add(t, plain, suppression.Entry{Address: "before@example.com", Reason: suppression.Manual})
	keys := keyring(t, 1)
	s := newStore(t, suppression.Config{Pool: pool, Keyring: keys})
	add(t, s, suppression.Entry{Address: "ann@example.com", Reason: suppression.Bounce})
	other := newStore(t, suppression.Config{Pool: pool, Keyring: keys}) // another process
	for _, address := range []string{"before@example.com", "ann@example.com"} {
		if !suppressed(t, s, "", address) || !suppressed(t, other, "", address) {
			t.Errorf("%s may be written to", address)
		}
	}
	var guessed int
	if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM suppression WHERE digest = sha256(convert_to('oncegate suppression', 'UTF8') || '\x00' || 'ann@example.com')
		OR position('ann@'::bytea IN address) > 0`).Scan(&guessed); err != nil || guessed != 0 {
		t.Errorf("%d entries can be guessed, %v", guessed, err)
	}
	if rows, err := inboxtest.Rows(s.List(t.Context(), suppression.Filter{})); err != nil || rows[0].Address != "ann@example.com" || rows[1].Address != "before@example.com" {
		t.Errorf("%+v %v", rows, err)
	}
	// Whether an address is among those of a lost key is not known, and must not pass for no.
	stranger := newStore(t, suppression.Config{Pool: pool})
	if _, err := stranger.Suppressed(t.Context(), "", "cid@example.com"); !errors.Is(err, seal.ErrLost) {
		t.Errorf("without the key: %v", err)
	}
	if err := stranger.Remove(t.Context(), "", "cid@example.com", by); !errors.Is(err, seal.ErrLost) {
		t.Errorf("removing without the key: %v", err)
	}
}

func TestReseal(t *testing.T) {
	t.Parallel()
	pool := inboxtest.Pool(t)
	add(t, newStore(t, suppression.Config{Pool: pool}), suppression.Entry{Address: "ann@example.com", Reason: suppression.Bounce})
	keys := keyring(t, 1)
	if _, err := prune.Reseal(t.Context(), prune.ResealConfig{Pool: pool, Keyring: keys}); err != nil {
		t.Fatal(err)
	}
	var address []byte
	if err := pool.QueryRow(t.Context(), `SELECT address FROM suppression WHERE key_id = 1`).Scan(&address); err != nil || bytes.Contains(address, []byte("ann")) {
		t.Errorf("%q %v", address, err)
	}
	rows, err := inboxtest.Rows(newStore(t, suppression.Config{Pool: pool, Keyring: keys}).List(t.Context(), suppression.Filter{}))
	if err != nil || len(rows) != 1 || rows[0].Address != "ann@example.com" {
		t.Errorf("%+v %v", rows, err)
	}
	usage, err := prune.KeyUsages(t.Context(), pool)
	if len(usage) > 0 && usage[0].Table == "order_secret" {
		usage = usage[1:] // the secret under which the reseal hashes
	}
	if err != nil || len(usage) != 1 || usage[0].Table != "suppression" || usage[0].Key != 1 {
		t.Errorf("%+v %v", usage, err)
	}
}

func TestHashOnly(t *testing.T) {
	t.Parallel()
	pool := inboxtest.Pool(t)
	s := newStore(t, suppression.Config{Pool: pool, HashOnly: true})
	add(t, s, suppression.Entry{Address: "ann@example.com", Reason: suppression.Bounce})
	var kept int
	if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM suppression WHERE address IS NOT NULL`).Scan(&kept); err != nil || kept != 0 {
		t.Errorf("%d addresses are kept, %v", kept, err)
	}
	rows, err := inboxtest.Rows(s.List(t.Context(), suppression.Filter{}))
	if err != nil || len(rows) != 1 || rows[0].Address != "" || len(rows[0].Digest) != 12 || !suppressed(t, s, "", "ANN@example.com") {
		t.Errorf("%+v %v", rows, err)
	}
}

// Two imports of the same addresses in another order must neither fail nor add one twice.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	pool := inboxtest.Pool(t)
	s := newStore(t, suppression.Config{Pool: pool})
	var wg sync.WaitGroup
	counts := make([]suppression.Added, 4)
	for w := range counts {
		wg.Go(func() {
			entries := make([]suppression.Entry, 500)
			for i := range entries {
				n := i
				if w%2 == 1 {
					n = len(entries) - 1 - i
				}
				entries[i] = suppression.Entry{Address: fmt.Sprintf("u%d@example.com", n), Reason: suppression.Manual}
			}
			var err error
			if counts[w], err = s.Add(t.Context(), entries, by); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	sum := counts[0].Plus(counts[1]).Plus(counts[2]).Plus(counts[3])
	if sum != (suppression.Added{Added: 500, Known: 1500}) {
		t.Errorf("%+v", sum)
	}
}

// The question is asked for every message: it must find its entry by the index.
func TestPlan(t *testing.T) {
	t.Parallel()
	pool := inboxtest.Pool(t)
	plan := explain(t, pool, suppression.FindDigests, []int32{0}, [][]byte{make([]byte, 32)}, []string{"x"})
	if !bytes.Contains(plan, []byte("suppression_digest_target_key")) || bytes.Contains(plan, []byte("Seq Scan")) {
		t.Errorf("%s", plan)
	}
}

func explain(tb testing.TB, pool *pgxpool.Pool, sql string, args ...any) []byte {
	tb.Helper()
	rows, err := pool.Query(tb.Context(), "EXPLAIN "+sql, args...)
	if err != nil {
		tb.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		tb.Fatal(err)
	}
	var out []byte
	for _, line := range lines {
		out = append(append(out, line...), '\n')
	}
	return out
}
