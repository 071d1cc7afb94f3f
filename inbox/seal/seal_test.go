package seal_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox/seal"
)

const (
	key3 = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	key4 = "ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8="
)

func keyring(t *testing.T, text string) *seal.Keyring {
	t.Helper()
	keys, err := seal.New(func() ([]byte, error) { return []byte(text), nil }, nil)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func place() seal.Place {
	p := seal.Place{Table: "effect", Column: "result", Item: 7}
	row, _ := hex.DecodeString("0190a1b2c3d47e5f8a9b0c1d2e3f4051")
	copy(p.Row[:], row)
	return p
}

// The value was sealed by another implementation of the format in the package's
// comment: Node's crypto (createHmac, createCipheriv), with the nonce 00 01 .. 0b.
func TestOpenForeign(t *testing.T) {
	t.Parallel()
	stored, err := hex.DecodeString("0100000003000102030405060708090a0bffcb9c188ff7af05c0916b6508155f99b935d19c15bd5aabe74c0adb59c0b1042f")
	if err != nil {
		t.Fatal(err)
	}
	id := int32(3)
	got, err := keyring(t, "3 "+key3+" active").Open(place(), &id, stored)
	if err != nil || string(got) != `{"charge":"ch_1"}` {
		t.Fatalf("Open = %q, %v", got, err)
	}
}

func TestSealOpen(t *testing.T) {
	t.Parallel()
	keys := keyring(t, "3 "+key3+"\n4 "+key4+" active")
	for _, plain := range [][]byte{{}, {0}, []byte("body"), bytes.Repeat([]byte{0xff}, 1<<20)} {
		stored, id := keys.Seal(place(), plain)
		if id == nil || *id != 4 || len(stored) != len(plain)+seal.Overhead {
			t.Fatalf("Seal of %d bytes: key %v, %d bytes", len(plain), id, len(stored))
		}
		if len(plain) > 8 && bytes.Contains(stored, plain[:8]) {
			t.Fatal("the sealed value holds the plain one")
		}
		got, err := keys.Open(place(), id, stored)
		if err != nil || got == nil || !bytes.Equal(got, plain) {
			t.Fatalf("Open = %d bytes, %v; want %d", len(got), err, len(plain))
		}
	}
	a, _ := keys.Seal(place(), []byte("x"))
	b, _ := keys.Seal(place(), []byte("x"))
	if bytes.Equal(a, b) {
		t.Error("the same value is sealed alike twice")
	}
}

func TestOpenRefusesWhatWasChangedOrMoved(t *testing.T) {
	t.Parallel()
	keys := keyring(t, "3 "+key3+" active\n4 "+key4)
	stored, id := keys.Seal(place(), []byte("SECRETCONTENT"))
	refuse := func(what string, p seal.Place, id *int32, stored []byte) {
		t.Helper()
		got, err := keys.Open(p, id, stored)
		if !errors.Is(err, seal.ErrDamaged) || got != nil {
			t.Errorf("%s: Open = %q, %v; want ErrDamaged", what, got, err)
		}
	}
	for i := range stored {
		changed := bytes.Clone(stored)
		changed[i] ^= 1
		refuse(fmt.Sprintf("byte %d changed", i), place(), id, changed)
	}
	for n := range stored {
		refuse(fmt.Sprintf("cut to %d", n), place(), id, stored[:n])
	}
	refuse("longer", place(), id, append(bytes.Clone(stored), 0))
	for what, move := range map[string]func(*seal.Place){
		"table":  func(p *seal.Place) { p.Table = "effects" },
		"column": func(p *seal.Place) { p.Column = "rendered" },
		"row":    func(p *seal.Place) { p.Row[15]++ },
		"item":   func(p *seal.Place) { p.Item++ },
		// The lengths keep the parts apart.
		"boundary": func(p *seal.Place) { p.Table, p.Column = "effectr", "esult" },
	} {
		p := place()
		move(&p)
		refuse(what, p, id, stored)
	}
	other := int32(4)
	refuse("another key's id", place(), &other, stored)
}

func TestLostKey(t *testing.T) {
	t.Parallel()
	stored, id := keyring(t, "3 "+key3+" active").Seal(place(), []byte("x"))
	var none *seal.Keyring
	for _, keys := range []*seal.Keyring{keyring(t, "4 "+key4+" active"), none} {
		if _, err := keys.Open(place(), id, stored); !errors.Is(err, seal.ErrLost) || !strings.Contains(err.Error(), "effect.result is sealed with key 3") {
			t.Errorf("Open without the key: %v", err)
		}
	}
	if _, err := keyring(t, "3 "+key4+" active").Open(place(), id, stored); !errors.Is(err, seal.ErrDamaged) {
		t.Errorf("Open with another key of the same id: %v", err)
	}
}

func TestNoKeyring(t *testing.T) {
	t.Parallel()
	var keys *seal.Keyring
	stored, id := keys.Seal(place(), []byte("x"))
	if id != nil || string(stored) != "x" {
		t.Errorf("Seal without a keyring = %q, %v", stored, id)
	}
	if got, err := keys.Open(place(), nil, stored); err != nil || string(got) != "x" {
		t.Errorf("Open = %q, %v", got, err)
	}
	if keys.Ring() != nil || keys.Reload() != nil {
		t.Error("a nil keyring has keys")
	}
	if stored, id := keyring(t, "3 "+key3+" active").Seal(place(), nil); stored != nil || id != nil {
		t.Error("nil was sealed: it is NULL")
	}
}

// A key that another process was given first is found by reading the keyring
// again, but not more often than once a second.
func TestUnknownKeyIsLookedFor(t *testing.T) {
	t.Parallel()
	stored, id := keyring(t, "4 "+key4+" active").Seal(place(), []byte("x"))
	now := time.Unix(1_800_000_000, 0)
	loads, text := 0, "3 "+key3+" active"
	keys, err := seal.New(func() ([]byte, error) { loads++; return []byte(text), nil }, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if _, err := keys.Open(place(), id, stored); !errors.Is(err, seal.ErrLost) {
			t.Fatal(err)
		}
	}
	if loads != 2 {
		t.Errorf("read %d times, want 2", loads)
	}
	text = "3 " + key3 + " active;4 " + key4
	now = now.Add(time.Second)
	if got, err := keys.Open(place(), id, stored); err != nil || string(got) != "x" {
		t.Errorf("Open = %q, %v", got, err)
	}
	text = "nonsense"
	if err := keys.Reload(); !errors.Is(err, seal.ErrKeyring) {
		t.Errorf("Reload of nonsense: %v", err)
	}
	if _, err := keys.Open(place(), id, stored); err != nil {
		t.Errorf("the keys went with a keyring that could not be read: %v", err)
	}
}

func TestParseRing(t *testing.T) {
	t.Parallel()
	const (
		form    = `it must be "ID BASE64" or "ID BASE64 active"`
		number  = "the id must be a whole number from 1"
		decoded = "the key must be 32 bytes in base64"
	)
	for name, c := range map[string]struct{ text, want string }{
		"empty":       {"", "0 keys are marked active"},
		"no active":   {"1 " + key3, "0 keys are marked active"},
		"two active":  {"1 " + key3 + " active\n2 " + key4 + " active", "2 keys are marked active"},
		"twice":       {"1 " + key3 + " active\n1 " + key4, "line 2: key 1 is there twice"},
		"zero":        {"0 " + key3 + " active", "line 1: " + number},
		"negative":    {"-1 " + key3 + " active", "line 1: " + number},
		"large":       {"3000000000 " + key3 + " active", "line 1: " + number},
		"short key":   {"1 AAEC active", "line 1: " + decoded},
		"long key":    {"1 AAAA" + key3 + " active", "line 1: " + decoded},
		"not base64":  {"1 !!!! active", "line 1: " + decoded},
		"other word":  {"1 " + key3 + " aktive", "line 1: " + form},
		"one field":   {key3, "line 1: " + form},
		"four fields": {"1 " + key3 + " active now", "line 1: " + form},
		"behind one":  {"# comment\n1 " + key3 + " active\n\n2 " + key4 + " x", "line 4: " + form},
	} {
		_, err := seal.ParseRing([]byte(c.text))
		if !errors.Is(err, seal.ErrKeyring) || !strings.Contains(err.Error(), "the keyring cannot be read: "+c.want) {
			t.Errorf("%s: %v, want ErrKeyring, %s", name, err, c.want)
		} else if strings.Contains(err.Error(), key3[:8]) {
			t.Errorf("%s: the error holds the key: %v", name, err)
		}
	}
	ring, err := seal.ParseRing([]byte("# comment\n\n 7  " + key4 + " active \n2 " + key3 + "\n"))
	if err != nil || ring.Active().ID != 7 || len(ring.Keys()) != 2 || ring.Next() != 8 {
		t.Fatalf("ParseRing = %v, %v", ring, err)
	}
	again, err := seal.ParseRing(ring.Text())
	if err != nil || again.Active() != ring.Active() || len(again.Keys()) != 2 {
		t.Errorf("its own text: %v", err)
	}
}

func TestRingChanges(t *testing.T) {
	t.Parallel()
	var none *seal.Ring
	first := none.With(seal.NewKey(none.Next()), false)
	if first.Active().ID != 1 {
		t.Errorf("the first key is not active: %v", first.Active())
	}
	two := first.With(seal.NewKey(first.Next()), false)
	if two.Active().ID != 1 || len(two.Keys()) != 2 {
		t.Errorf("a prepared key became active")
	}
	if out, ok := two.Activate(2); !ok || out.Active().ID != 2 {
		t.Error("key 2 was not activated")
	}
	if _, ok := two.Activate(9); ok {
		t.Error("a key that is not there was activated")
	}
	if _, ok := two.Without(1); ok {
		t.Error("the active key was removed")
	}
	if out, ok := two.Without(2); !ok || len(out.Keys()) != 1 || out.Keys()[0] != two.Keys()[0] || out.Active() != two.Active() {
		t.Errorf("key 2 was not removed: %v", out.Keys())
	}
	if _, ok := two.Without(9); ok {
		t.Error("a key that is not there was removed")
	}
	if a, b := seal.NewKey(1), seal.NewKey(1); a.Fingerprint() == b.Fingerprint() {
		t.Error("two keys are alike")
	}
}

func TestSecretCannotBePrinted(t *testing.T) {
	t.Parallel()
	ring, err := seal.ParseRing([]byte("1 " + key3 + " active"))
	if err != nil {
		t.Fatal(err)
	}
	raw := string([]byte{0, 1, 2, 3, 4, 5, 6, 7})
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		for _, v := range []any{ring.Active(), ring.Keys(), []any{ring.Active()}} {
			out := fmt.Sprintf(verb, v)
			for _, secret := range []string{raw, key3[:12], "0001020304", "0 1 2 3 4", "0x0, 0x1, 0x2"} {
				if strings.Contains(out, secret) {
					t.Errorf("%s of %T shows the key: %s", verb, v, out)
				}
			}
		}
	}
}

func BenchmarkSeal(b *testing.B) {
	keys, err := seal.New(func() ([]byte, error) { return []byte("3 " + key3 + " active"), nil }, nil)
	if err != nil {
		b.Fatal(err)
	}
	body := bytes.Repeat([]byte("x"), 2048)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		keys.Seal(seal.Place{Table: "inbox_body", Column: "body"}, body)
	}
}
