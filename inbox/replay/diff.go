package replay

import (
	"encoding/json"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
)

// Diff compares the recorded request of one effect with the request that would be sent
// today. It contains no signature, no credential and no value of a configured header, and
// it masks members of the body whose names say that they are secret. Its JSON is an
// interface: names are added, never changed.
type Diff struct {
	Verdict Verdict `json:"verdict"`

	// Why lists the reasons for the verdict, in short sentences that do not quote the event.
	Why []string `json:"why,omitempty"`

	Event     string `json:"event"`
	EventID   string `json:"event_id"`
	Type      string `json:"type"`
	Source    string `json:"source"`
	Route     string `json:"route"`
	Signature string `json:"signature,omitempty"`

	Recorded *DiffSide `json:"recorded,omitempty"`

	// Today is nil if no request would be sent, and if the request is the same.
	Today *DiffSide `json:"today,omitempty"`

	// Changes are the changes of the body, at most [MaxChanges].
	Changes []Change `json:"changes,omitempty"`

	// Unused are the changes that today's rendering would make to the body. A replay sends the
	// stored bytes instead, because the target may know the key with them.
	Unused []Change `json:"unused_changes,omitempty"`

	// Identity are the fields for which today's provider description extracts other values
	// than were recorded. A replay does not apply them.
	Identity []Change `json:"identity,omitempty"`
}

// MaxChanges is how many changes of one body a diff shows at most.
const MaxChanges = 20

// Change is one JSON path with its values, as JSON. A side without a value at the path is
// empty. Values are cut at 200 bytes.
type Change struct {
	Path   string `json:"path"`
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// DiffSide is one side of a diff.
type DiffSide struct {
	RouteVersion int    `json:"route_version,omitempty"`
	Target       string `json:"target"`
	Kind         string `json:"kind,omitempty"`
	Method       string `json:"method,omitempty"`

	// Address is the target's address, without parts that may be credentials. AddressSHA256
	// is the beginning of the hash of the whole address.
	Address       string `json:"address,omitempty"`
	AddressSHA256 string `json:"address_sha256,omitempty"`

	// Headers are the headers of today's request. Values that may be credentials are left
	// out. Headers are not recorded.
	Headers map[string]string `json:"headers,omitempty"`

	// Key is the idempotency key, and KeyHash the hash of the recipe's key, in hex.
	Key     string `json:"key,omitempty"`
	KeyHash string `json:"key_hash,omitempty"`

	// Body describes the bytes; nil if there are none.
	Body *DiffBody `json:"body,omitempty"`

	// State and the fields below are the outcome of the recorded request. They are empty for today's.
	State  inbox.EffectState `json:"state,omitempty"`
	Reason reasons.Reason    `json:"reason,omitempty"`
	// LastCode is the target's last answer.
	LastCode   string     `json:"last_code,omitempty"`
	Attempts   int        `json:"attempts,omitempty"`
	FinishedAt *time.Time `json:"finished_at,omitempty"`
}

// DiffBody describes the bytes of a request.
type DiffBody struct {
	Bytes int `json:"bytes"`
	// SHA256 is the hash of the bytes, in hex.
	SHA256 string `json:"sha256"`

	// From is "received" for the event's bytes as received, "stored" for the bytes rendered
	// before the first send, and "rendered" for the bytes rendered today.
	From string `json:"from"`

	// CanonicalSHA256 is the hash of the canonical JSON (RFC 8785); empty if the body has
	// none. Canonical is that JSON, masked and cut at 2 KiB; only if the bodies differ.
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
