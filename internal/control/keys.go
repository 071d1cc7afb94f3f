package control

import (
	"context"
	"slices"

	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/seal"
)

// ListKeysRequest asks for the sealing keys.
type ListKeysRequest struct {
	// Usage asks how many values are sealed with each key. The count reads every row.
	Usage bool `json:"usage,omitempty" flag:"--usage count the rows sealed with each key; reads every row"`
}

// Key is a sealing key, without its content.
type Key struct {
	// ID is the number of the key. 0 is for values that are not sealed.
	ID int32 `json:"id"`

	// Active says that the key seals new data.
	Active bool `json:"active"`

	// Fingerprint is the beginning of a digest of the key, or LOST for a key that the keyring lacks.
	Fingerprint string `json:"fingerprint"`

	// Usage counts the values that are sealed with the key, if the request asked for it.
	Usage []prune.KeyUsage `json:"usage,omitempty"`
}

// ListKeys lists the sealing keys.
var ListKeys = Operation[ListKeysRequest, read.Page[Key]]{
	ID: "list_keys", Method: "GET", Path: "/keys", Scope: ReadMetadata,
	Summary: "List the sealing keys of the keyring; never their content.",
	Do: func(ctx context.Context, s *Service, access Access, r ListKeysRequest) (page read.Page[Key], err error) {
		if err := access.untenanted("sealing keys"); err != nil {
			return page, err
		}
		var ring *seal.Ring
		if s.cfg.Keyring != nil {
			ring = s.cfg.Keyring.Ring()
		}
		var used []prune.KeyUsage
		if r.Usage {
			if used, err = prune.KeyUsages(ctx, s.cfg.Pool); err != nil {
				return page, err
			}
		}
		return whole(KeysOf(ring, used)), nil
	},
}

// KeysOf returns the keys of a keyring, which may be nil, and the keys with which something is sealed. The command line
// can read a keyring without a database and shows the same.
func KeysOf(ring *seal.Ring, used []prune.KeyUsage) []Key {
	var keys []Key
	if ring != nil {
		for _, key := range ring.Keys() {
			keys = append(keys, Key{ID: key.ID, Active: key.ID == ring.Active().ID, Fingerprint: key.Fingerprint()})
		}
	}
	for _, usage := range used {
		at := slices.IndexFunc(keys, func(key Key) bool { return key.ID == usage.Key })
		if at < 0 {
			key := Key{ID: usage.Key, Fingerprint: "LOST"}
			if usage.Key == 0 {
				key.Fingerprint = "(plain)"
			}
			keys, at = append(keys, key), len(keys)
		}
		keys[at].Usage = append(keys[at].Usage, usage)
	}
	return keys
}
