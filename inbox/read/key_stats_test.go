package read_test

import (
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/inbox/read"
)

// Keys are estimated by age from the statistics, and effect keys counted by when they expire.
func TestReadKeyStats(t *testing.T) {
	t.Parallel()
	o := storetest.NewOperated(t, 1)
	now := time.Now()
	for hours, n := range map[int]int{0: 300, 5: 200, 24 * 20: 400, 24 * 365: 100} {
		at := inbox.FirstID(now.Add(-time.Duration(hours)*time.Hour - time.Minute)).String()
		storetest.Exec(t, o.Pool, `INSERT INTO inbox_event (id, source_id, event_id, type, body_sha256, received_at, admission, class, body_id,
			item, body_offset, body_length, id_unsigned, suspected_replay)
			SELECT (left($1::text, 24) || lpad(to_hex(n), 12, '0'))::uuid, $2, $1::text || n, 'charge', sha256(''), now(), 'unrouted', 'default', $1::text::uuid, 0, 0, 0, false, false
			FROM generate_series(1, $3::int) n`, at, o.Source, n)
	}
	storetest.Exec(t, o.Pool, `ANALYZE inbox_event`)
	storetest.Exec(t, o.Pool, `INSERT INTO effect_key (route_id, key_hash, effect_id, received_at, expires_at)
		SELECT $1, sha256(n::text::bytea), gen_random_uuid(), now(), now() + (n - 1) * interval '10 hours' FROM generate_series(0, 9) n`, o.Routes[0])
	s, err := read.CountKeys(t.Context(), o.Pool, now)
	if err != nil {
		t.Fatal(err)
	}
	for age, want := range map[string]float64{"1h": 300, "1d": 200, "7d": 0, "30d": 400, "90d": 0, "older": 100} {
		if got := s.ByAge[age]; got < want-25 || got > want+25 {
			t.Errorf("%s: about %g keys, want %g", age, got, want)
		}
	}
	// Ten keys, from ten hours ago to 80 hours ahead.
	for expiry, want := range map[string]float64{"expired": 1, "1h": 1, "1d": 2, "7d": 6, "30d": 0, "later": 0} {
		if got := s.ByExpiry[expiry]; got < want-1 || got > want+1 || want == 6 && got != 6 {
			t.Errorf("%s: %g effect keys, want %g", expiry, got, want)
		}
	}
	if len(s.ByAge) != len(read.KeyAges()) || len(s.ByExpiry) != len(read.KeyExpiries()) {
		t.Errorf("%+v", s)
	}
}
