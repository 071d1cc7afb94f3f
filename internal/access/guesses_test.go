package access_test

import (
	"fmt"
	"hash/crc32"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/internal/access"
	"github.com/oncegate/oncegate/internal/access/tokens"
	"github.com/oncegate/oncegate/internal/control"
)

// genuineForm returns n texts with the form and the checksum of a token that do not exist. An
// attacker who knows the form would guess such texts.
func genuineForm(n int) []string {
	const bigDigits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	out := make([]string, n)
	for i := range out {
		// The checksum is CRC-32 in six digits of base 62.
		body := fmt.Sprintf("%043d", i)
		sum, text := crc32.ChecksumIEEE([]byte(body)), ""
		for range 6 {
			text = string(bigDigits[sum%62]) + text
			sum /= 62
		}
		out[i] = "og_" + body + text
	}
	return out
}

// Guessed tokens cause few lookups in the database. A token that was created in this very moment waits for the next list.
func TestGuessedTokensBuyNoLookups(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	known, _ := b.create(t, tokens.New{Name: "known"})
	for range 50 {
		if _, err := b.bearer(t, known, "192.0.2.1"); err != nil {
			t.Fatal(err)
		}
	}
	if n := b.asked(); n != 1 {
		t.Errorf("50 requests in one moment took %d lookups, want 1", n)
	}
	for _, wrong := range []string{"x", "og_", known + "0", known[:51], strings.Repeat("a", 1000)} {
		if _, err := b.bearer(t, wrong, "192.0.2.1"); code(err) != control.CodeUnauthorized {
			t.Errorf("%s: %v", wrong, err)
		}
	}
	if n := b.asked(); n != 0 {
		t.Errorf("what is no token took %d lookups", n)
	}
	guesses := genuineForm(3000)
	got := map[control.Code]int{}
	for _, guess := range guesses[:1000] {
		_, err := b.bearer(t, guess, "198.51.100.7")
		got[code(err)]++
	}
	if n := b.asked(); n != 20 || got[control.CodeUnauthorized] != 20 || got[control.CodeTooMany] != 980 {
		t.Errorf("1000 guesses of one peer took %d lookups and got %v", n, got)
	}
	// One IPv6 network is one peer, and all peers also share a limit.
	for i, guess := range guesses[1000:1100] {
		b.bearer(t, guess, fmt.Sprintf("[2001:db8::%x]", i+1)) //nolint:errcheck // only the lookups count
	}
	if n := b.asked(); n != 20 {
		t.Errorf("100 guesses of one IPv6 network took %d lookups", n)
	}
	for i, guess := range guesses[1100:] {
		b.bearer(t, guess, fmt.Sprintf("10.1.%d.%d", i/250, i%250)) //nolint:errcheck // only the lookups count
	}
	if n := b.asked(); n != 160 {
		t.Errorf("1900 guesses of 1900 peers took %d lookups, want what is left of 200", n)
	}
	// No lookups are left for unknown tokens, but the known token is still read again.
	b.at = b.at.Add(2 * time.Second)
	for i, guess := range guesses[:500] {
		b.bearer(t, guess, fmt.Sprintf("10.2.%d.%d", i/250, i%250)) //nolint:errcheck // only the lookups count
	}
	b.asked()
	if _, err := b.bearer(t, known, "10.2.0.1"); err != nil || b.asked() != 1 {
		t.Errorf("a known token: %v", err)
	}
	fresh, _ := b.create(t, tokens.New{Name: "fresh"})
	if _, err := b.bearer(t, fresh, "203.0.113.1"); code(err) != control.CodeTooMany {
		t.Errorf("a new token in the flood: %v", err)
	}
	// A genuine token does not count against the limit.
	b.at = b.at.Add(time.Second)
	for i := range 40 {
		text, _ := b.create(t, tokens.New{Name: fmt.Sprintf("genuine-%d", i)})
		if _, err := b.bearer(t, text, "203.0.113.1"); err != nil {
			t.Fatalf("genuine token %d: %v", i, err)
		}
	}
}

// A valid token that a process sees for the first time is accepted while many addresses guess, also from one of them.
func TestGuessesLockOutNoGenuineToken(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	texts := make([]string, 10)
	for i := range texts {
		texts[i], _ = b.create(t, tokens.New{Name: fmt.Sprintf("genuine-%d", i)})
	}
	got := map[control.Code]int{}
	for i, guess := range genuineForm(900) {
		_, err := b.bearer(t, guess, fmt.Sprintf("198.51.100.%d", i%30))
		got[code(err)]++
	}
	if n := b.asked(); n != 200 || got[control.CodeTooMany] != 700 {
		t.Fatalf("900 guesses of 30 addresses took %d lookups and got %v", n, got)
	}
	for i, text := range texts {
		if _, err := b.bearer(t, text, []string{"203.0.113.1", "198.51.100.1"}[i%2]); err != nil {
			t.Errorf("a valid token in the flood: %v", err)
		}
	}
	if _, err := b.bearer(t, genuineForm(901)[900], "203.0.113.1"); code(err) != control.CodeTooMany {
		t.Errorf("a guess after them: %v", err)
	}
}

// The peer is the sender, and not the trusted proxy that forwards the request.
func TestPeersBehindATrustedProxy(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(c *access.Config) { c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")} })
	guesses := genuineForm(60)
	ask := func(i int, remote, forwarded string) control.Code {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Header.Set("Authorization", "Bearer "+guesses[i])
		r.RemoteAddr = remote + ":1"
		r.Header.Set("X-Forwarded-For", forwarded)
		_, err := b.Authenticate(r)
		return code(err)
	}
	for i := range 20 {
		// Addresses that the sender itself wrote into the header are ignored.
		if got := ask(i, "10.0.0.1", fmt.Sprintf("203.0.113.%d, 192.0.2.9, 10.0.0.2", i)); got != control.CodeUnauthorized {
			t.Fatalf("guess %d: %s", i, got)
		}
	}
	if got := ask(20, "10.0.0.1", "192.0.2.9"); got != control.CodeTooMany {
		t.Errorf("the same sender: %s", got)
	}
	if got := ask(21, "10.0.0.1", "192.0.2.10"); got != control.CodeUnauthorized {
		t.Errorf("another sender: %s", got)
	}
	for i := range 20 {
		ask(22+i, "192.0.2.77", fmt.Sprintf("203.0.113.%d", i))
	}
	if got := ask(50, "192.0.2.77", "203.0.113.99"); got != control.CodeTooMany {
		t.Errorf("whoever is no proxy names senders: %s", got)
	}
}
