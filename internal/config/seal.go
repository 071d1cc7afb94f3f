package config

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/oncegate/oncegate/inbox/seal"
	"github.com/oncegate/oncegate/internal/yamltree"
)

// Seal configures the keys that encrypt stored deliveries.
type Seal struct {
	// Keyring is a reference to the keys: "env:NAME" or "file:PATH". If it is empty, sealing is
	// off, and bodies, headers, requests and results are stored unencrypted. The environment
	// variable ONCEGATE_KEYRING takes a reference too, or the keys themselves.
	Keyring string

	env *environment
}

// Open returns the keyring. The keyring reads the keys again when it needs one that it does not
// have. Open returns nil if sealing is off. now may be nil.
func (s Seal) Open(now func() time.Time) (*seal.Keyring, error) {
	if s.Keyring == "" {
		return nil, nil //nolint:nilnil // a nil keyring seals nothing
	}
	keys, err := seal.New(s.read, now)
	if errors.Is(err, seal.ErrKeyring) && s.Keyring == keyringVariable && s.Path() == "" {
		// The text may contain the keys, so the error does not quote it.
		return nil, fmt.Errorf("%w; ONCEGATE_KEYRING takes file:PATH, env:NAME or the keys themselves", err)
	}
	return keys, err
}

// keyringVariable is the value of Seal.Keyring if the environment contains the keys.
const keyringVariable = "env:ONCEGATE_KEYRING"

// Path returns the path of the keyring's file, or "" if the keyring is not in a file.
func (s Seal) Path() string {
	if path, ok := strings.CutPrefix(s.Keyring, "file:"); ok {
		return path
	}
	if name, ok := strings.CutPrefix(s.Keyring, "env:"); ok && s.env.vars[name] == "" {
		return s.env.vars[name+"_FILE"]
	}
	return ""
}

func (s Seal) read() ([]byte, error) {
	text, err := s.env.resolve(s.Keyring)
	return []byte(text), err
}

func (s *Seal) keys() []Key {
	return []Key{value("keyring", &s.Keyring, words(verbatim), "none", "`file:PATH` or `env:NAME`: the keys that bodies and results are [sealed](../guides/sealing.md) with. `ONCEGATE_KEYRING` may also hold the keys themselves.").
		from("ONCEGATE_KEYRING, or the keys themselves; ONCEGATE_KEYRING_FILE names a file with them").by((*reader).keyring)}
}

func (r *reader) keyring(n *yamltree.Node) {
	switch text, ok := n.Text(); {
	case !ok:
	case isReference(text):
		r.cfg.Seal.Keyring = text
	default: // the text may contain the keys, so the error does not quote it
		n.Fail("must be a reference (env:NAME or file:PATH), never the keys themselves")
	}
}

// checkSeal opens the keyring once, to find an unusable keyring before anything is recorded.
func (r *reader) checkSeal(cfg *Config, o Options) {
	cfg.Seal.env = r.env
	if r.env.has("ONCEGATE_KEYRING") {
		cfg.Seal.Keyring = keyringVariable
		text, _, err := r.env.lookup("ONCEGATE_KEYRING")
		switch reference := strings.TrimSpace(text); {
		case err != nil: // Open reports it
		case r.env.vars["ONCEGATE_KEYRING"] == "": // the file that ONCEGATE_KEYRING_FILE names contains the keys
		case reference == keyringVariable:
			r.report.Add("ONCEGATE_KEYRING: names itself; it takes file:PATH, env:NAME of another variable or the keys themselves")
			return
		case isReference(reference):
			cfg.Seal.Keyring = reference
		}
	}
	if _, err := cfg.Seal.Open(nil); err != nil && !o.KeyringLater {
		r.report.Add("seal.keyring: %v", err)
	}
}
