package config

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/oncegate/oncegate/inbox/seal"
	"github.com/oncegate/oncegate/internal/yamltree"
)

// Seal says with which keys what is kept of deliveries is encrypted.
type Seal struct {
	// Keyring is where the keys are: "env:NAME" or "file:PATH". Empty is off: bodies,
	// headers, requests and results are stored in plain. The environment variable
	// ONCEGATE_KEYRING takes the same, or the keys themselves.
	Keyring string

	env *environment
}

// Open reads the keyring; it is read again when a key is met that is not in it.
// It is nil where sealing is off. now may be nil.
func (s Seal) Open(now func() time.Time) (*seal.Keyring, error) {
	if s.Keyring == "" {
		return nil, nil //nolint:nilnil // a nil keyring is one that seals nothing
	}
	keys, err := seal.New(s.read, now)
	if errors.Is(err, seal.ErrKeyring) && s.Keyring == keyringVariable && s.Path() == "" {
		// The text may be the keys: it is not quoted.
		return nil, fmt.Errorf("%w; ONCEGATE_KEYRING takes file:PATH, env:NAME or the keys themselves", err)
	}
	return keys, err
}

// keyringVariable is where the keys are if the environment has them.
const keyringVariable = "env:ONCEGATE_KEYRING"

// Path is the file the keyring is in; empty if it is not in a file.
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

func (r *reader) seal(cfg *Config, n *yamltree.Node) {
	n.Fields(map[string]func(*yamltree.Node){
		"keyring": func(n *yamltree.Node) {
			switch text, ok := n.Text(); {
			case !ok:
			case isReference(text):
				cfg.Seal.Keyring = text
			default: // the text may be the keys: it is not quoted
				n.Fail("must be a reference (env:NAME or file:PATH), never the keys themselves")
			}
		},
	})
}

// checkSeal reads the keyring once, so that one that cannot be used is found
// before anything is recorded.
func (r *reader) checkSeal(cfg *Config, o Options) {
	cfg.Seal.env = r.env
	if r.env.has("ONCEGATE_KEYRING") {
		cfg.Seal.Keyring = keyringVariable
		text, _, err := r.env.lookup("ONCEGATE_KEYRING")
		switch reference := strings.TrimSpace(text); {
		case err != nil: // Open says so
		case r.env.vars["ONCEGATE_KEYRING"] == "": // the file of its twin holds the keys
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
