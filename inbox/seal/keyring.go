package seal

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Key is one key of a keyring. Its secret cannot be printed.
type Key struct {
	// ID is stored with every value sealed under the key. It is never given to another
	// key.
	ID int32

	secret [32]byte
}

// NewKey makes a random key.
func NewKey(id int32) Key {
	k := Key{ID: id}
	if _, err := rand.Read(k.secret[:]); err != nil {
		panic("seal: the system has no randomness: " + err.Error()) // crypto/rand never returns an error since Go 1.24
	}
	return k
}

// Fingerprint distinguishes keys without revealing anything of their secrets.
func (k Key) Fingerprint() string {
	sum := sha256.Sum256(append([]byte("oncegate key fingerprint\x00"), k.secret[:]...))
	return hex.EncodeToString(sum[:6])
}

// String hides the secret.
func (k Key) String() string { return fmt.Sprintf("key %d (%s)", k.ID, k.Fingerprint()) }

// GoString hides the secret.
func (k Key) GoString() string { return k.String() }

// Format hides the secret from every verb.
func (k Key) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, k.String()) }

// Ring is the keys of one keyring: new values are sealed with the active one, and the
// others open values that were sealed before.
type Ring struct {
	keys   []Key // by id
	active Key
}

// ErrKeyring is returned for a text that is not a keyring.
var ErrKeyring = errors.New("the keyring cannot be read")

// ParseRing reads a keyring: a line for each key, "ID BASE64" with 32 bytes, and "
// active" after exactly one. Empty lines and those that begin with # are skipped. A
// semicolon ends a line too, for environments that have no line breaks. The error names
// the line, never its content.
func ParseRing(text []byte) (*Ring, error) {
	ring := &Ring{}
	active := 0
	lines := bufio.NewScanner(bytes.NewReader(bytes.ReplaceAll(text, []byte(";"), []byte("\n"))))
	for n := 1; lines.Scan(); n++ {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		key, isActive, err := parseKey(fields)
		if err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrKeyring, n, err)
		}
		if slices.ContainsFunc(ring.keys, func(k Key) bool { return k.ID == key.ID }) {
			return nil, fmt.Errorf("%w: line %d: key %d is there twice", ErrKeyring, n, key.ID)
		}
		if isActive {
			ring.active = key
			active++
		}
		ring.keys = append(ring.keys, key)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%w: a line is too long", ErrKeyring)
	}
	if active != 1 {
		return nil, fmt.Errorf("%w: %d keys are marked active, it must be one", ErrKeyring, active)
	}
	slices.SortFunc(ring.keys, func(a, b Key) int { return int(a.ID) - int(b.ID) })
	return ring, nil
}

func parseKey(fields []string) (key Key, active bool, err error) {
	if len(fields) == 3 && fields[2] == "active" {
		active, fields = true, fields[:2]
	}
	if len(fields) != 2 {
		return Key{}, false, errors.New(`it must be "ID BASE64" or "ID BASE64 active"`)
	}
	id, err := strconv.ParseInt(fields[0], 10, 32)
	if err != nil || id < 1 {
		return Key{}, false, errors.New("the id must be a whole number from 1")
	}
	secret, err := base64.StdEncoding.DecodeString(fields[1])
	if err != nil || len(secret) != len(key.secret) {
		return Key{}, false, errors.New("the key must be 32 bytes in base64 (make one with `oncegate keys rotate`)")
	}
	key.ID = int32(id)
	copy(key.secret[:], secret)
	return key, active, nil
}

// Keys are the ring's keys by id.
func (r *Ring) Keys() []Key { return slices.Clone(r.keys) }

// Active is the key under which new values are sealed.
func (r *Ring) Active() Key { return r.active }

// With returns the ring with one more key; activate makes it the active one. A nil ring
// is empty, and its first key is active in any case.
func (r *Ring) With(key Key, activate bool) *Ring {
	if r == nil {
		return &Ring{keys: []Key{key}, active: key}
	}
	out := &Ring{keys: append(slices.Clone(r.keys), key), active: r.active}
	if activate {
		out.active = key
	}
	return out
}

// Next is an id that no key of the ring has.
func (r *Ring) Next() int32 {
	if r == nil {
		return 1
	}
	return r.keys[len(r.keys)-1].ID + 1
}

// Activate returns the ring with another active key; ok is false if it has no key with
// that id.
func (r *Ring) Activate(id int32) (out *Ring, ok bool) {
	for _, k := range r.keys {
		if k.ID == id {
			return &Ring{keys: slices.Clone(r.keys), active: k}, true
		}
	}
	return nil, false
}

// Without returns the ring without a key; ok is false if it has no key with that id or
// that key is active.
func (r *Ring) Without(id int32) (out *Ring, ok bool) {
	keys := slices.DeleteFunc(slices.Clone(r.keys), func(k Key) bool { return k.ID == id })
	return &Ring{keys: keys, active: r.active}, len(keys) < len(r.keys) && id != r.active.ID
}

// Text is the ring in the form that [ParseRing] reads. It contains the secrets.
func (r *Ring) Text() []byte {
	var b bytes.Buffer
	b.WriteString("# Keys of Oncegate: ID BASE64, one of them active. Losing a key loses what is sealed with it.\n")
	for _, k := range r.keys {
		fmt.Fprintf(&b, "%d %s", k.ID, base64.StdEncoding.EncodeToString(k.secret[:]))
		if k.ID == r.active.ID {
			b.WriteString(" active")
		}
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// Keyring seals and opens. A nil Keyring seals nothing and opens only plain values. It
// may be used by several goroutines.
type Keyring struct {
	load func() ([]byte, error)
	now  func() time.Time
	ring atomic.Pointer[Ring]

	mu     sync.Mutex
	looked time.Time
}

// reloadEvery is the least time between two reads of the source for a missing key.
const reloadEvery = time.Second

// New makes a keyring from load, which returns its text. load is called now, by Reload
// and when a value is sealed with an unknown key, at most once a second, because
// another process may have got the key first. now may be nil.
func New(load func() ([]byte, error), now func() time.Time) (*Keyring, error) {
	if now == nil {
		now = time.Now
	}
	r := &Keyring{load: load, now: now}
	if err := r.Reload(); err != nil {
		return nil, err
	}
	return r, nil
}

// Reload reads the keyring again, so that a rotation takes effect in a running
// process. If it cannot be read, the keys stay as they were.
func (r *Keyring) Reload() error {
	if r == nil {
		return nil
	}
	text, err := r.load()
	if err != nil {
		return fmt.Errorf("reading the keyring: %w", err)
	}
	ring, err := ParseRing(text)
	if err != nil {
		return err
	}
	r.ring.Store(ring)
	return nil
}

// Ring returns the current keys; nil for a nil Keyring.
func (r *Keyring) Ring() *Ring {
	if r == nil {
		return nil
	}
	return r.ring.Load()
}

// Has reports whether the keyring has a key of that id. It does not read the
// keyring again.
func (r *Keyring) Has(id int32) bool {
	ring := r.Ring()
	if ring == nil {
		return false
	}
	_, ok := ring.key(id)
	return ok
}

func (r *Keyring) find(id int32) (Key, bool) {
	if r == nil {
		return Key{}, false
	}
	if key, ok := r.ring.Load().key(id); ok {
		return key, true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.now(); now.Sub(r.looked) >= reloadEvery {
		r.looked = now
		_ = r.Reload() // the keys stay as they were
	}
	return r.ring.Load().key(id)
}

func (r *Ring) key(id int32) (Key, bool) {
	for _, k := range r.keys {
		if k.ID == id {
			return k, true
		}
	}
	return Key{}, false
}
