package replay

import (
	"encoding/json"
	"time"

	"github.com/oncegate/oncegate/inbox"
)

// Diff is what a plan tells of one effect: what was recorded beside what would be
// done today. It holds no signature, no credential and no value of a configured
// header, and masks members of the body whose names say that they are secret.
// Its JSON is an interface: names are added, never changed.
type Diff struct {
	Verdict Verdict `json:"verdict"`

	// Why says what the verdict is based on, in short sentences that quote nothing of
	// the event.
	Why []string `json:"why,omitempty"`

	Event     string `json:"event"`
	EventID   string `json:"event_id"`
	Type      string `json:"type"`
	Source    string `json:"source"`
	Route     string `json:"route"`
	Signature string `json:"signature,omitempty"`

	Recorded *DiffRequest `json:"recorded,omitempty"`

	// Today is nil where no request would leave, and where the request is the same.
	Today *DiffRequest `json:"today,omitempty"`

	// Changes are those of the body, at most [MaxChanges].
	Changes []Change `json:"changes,omitempty"`

	// Unused are the changes that today's rendering would make to a body that is sent
	// as it is stored, because its key may be known to the target with these bytes.
	Unused []Change `json:"unused_changes,omitempty"`

	// Identity are the fields that today's provider description extracts otherwise
	// than was recorded. A replay does not apply them.
	Identity []Change `json:"identity,omitempty"`
}

// MaxChanges bounds the changes of one body that a diff shows.
const MaxChanges = 20

// Change is one JSON path with what stands there, as JSON; a side that has
// nothing there is empty. Values are cut at 200 bytes.
type Change struct {
	Path   string `json:"path"`
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// DiffRequest is one side of a diff.
type DiffRequest struct {
	RouteVersion int    `json:"route_version,omitempty"`
	Target       string `json:"target"`
	Kind         string `json:"kind,omitempty"`
	Method       string `json:"method,omitempty"`

	// Address is where it goes, without what may be a credential in it; AddressSHA256
	// begins the hash of the whole.
	Address       string `json:"address,omitempty"`
	AddressSHA256 string `json:"address_sha256,omitempty"`

	// Headers are those of today's request, with values only where they cannot be
	// credentials. They were not recorded.
	Headers map[string]string `json:"headers,omitempty"`

	// Key is the idempotency key, KeyHash the key by recipe in hex.
	Key     string `json:"key,omitempty"`
	KeyHash string `json:"key_hash,omitempty"`

	// Body describes the bytes; nil where there are none.
	Body *DiffBody `json:"body,omitempty"`

	// What became of it; of the recorded side only.
	State  inbox.EffectState `json:"state,omitempty"`
	Reason inbox.Reason      `json:"reason,omitempty"`
	// LastCode is what the target answered last.
	LastCode   string     `json:"last_code,omitempty"`
	Attempts   int        `json:"attempts,omitempty"`
	FinishedAt *time.Time `json:"finished_at,omitempty"`
}

// DiffBody describes the bytes of a request.
type DiffBody struct {
	Bytes int `json:"bytes"`
	// SHA256 is the hash of the bytes, in hex.
	SHA256 string `json:"sha256"`

	// From is "received" for the event's bytes as they came, "stored" for what was
	// rendered before the first send, "rendered" for what is rendered today.
	From string `json:"from"`

	// CanonicalSHA256 is the hash of the canonical JSON (RFC 8785); empty if it has
	// none. Canonical is that text, masked and cut at 2 KiB; only where bodies differ.
	CanonicalSHA256 string `json:"canonical_sha256,omitempty"`
	Canonical       string `json:"canonical,omitempty"`
}

// ReadDiff reads a stored diff.
func ReadDiff(document json.RawMessage) (*Diff, error) {
	var d Diff
	if err := json.Unmarshal(document, &d); err != nil {
		return nil, err
	}
	return &d, nil
}
