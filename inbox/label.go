package inbox

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/inbox/seal"
)

const (
	// MaxLabels is how many labels a source may declare.
	MaxLabels = 8

	// MaxLabelValue is how long the value of a label may be, in bytes. A longer one is not kept: it could not be found by
	// its beginning.
	MaxLabelValue = 255
)

// Label is a value by which events are searched, with the name that its source's configuration gives it.
type Label struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// ErrLabel is returned for a text that is no label.
var ErrLabel = errors.New("not a label; write name=value, such as order=1042")

var labelName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)

// IsLabelName reports whether a source may name a label so. The name is written before an equals sign.
func IsLabelName(name string) bool { return labelName.MatchString(name) }

// ParseLabel reads name=value. Its error says which of the two no event can have.
func ParseLabel(text string) (Label, error) {
	name, value, ok := strings.Cut(text, "=")
	l := Label{Name: name, Value: value}
	switch {
	case !ok:
		return Label{}, ErrLabel
	case !IsLabelName(name):
		return Label{}, fmt.Errorf("%w: the name has at most 63 lower-case letters, digits and _, and begins with a letter", ErrLabel)
	case value == "":
		return Label{}, fmt.Errorf("%w: the value is missing", ErrLabel)
	case len(value) > MaxLabelValue:
		return Label{}, fmt.Errorf("%w: a value has at most %d bytes", ErrLabel, MaxLabelValue)
	case !l.Storable():
		return Label{}, fmt.Errorf("%w: the value is no text", ErrLabel)
	}
	return l, nil
}

// Storable reports whether the label can be kept: its name and value are 1 to 255 bytes of UTF-8 without NUL.
func (l Label) Storable() bool {
	return row.Storable(l.Name) && len(l.Name) <= 63 && row.Storable(l.Value)
}

// Stored is the value as it is stored: the text or, under a secret of the installation, its HMAC, so that whoever has the tables cannot
// try order numbers until one fits. The name is part of it, and the source is not, so that one search finds the events of all sources.
// Stored: never change.
func (l Label) Stored(secret []byte) []byte {
	if secret == nil {
		return []byte(l.Value)
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("oncegate label\x00" + l.Name + "\x00" + l.Value))
	return mac.Sum(nil)
}

// storedLabels are all under which the value of a label may be stored: plain, from before there was a keyring, and under each secret.
// Where the newest secret cannot be opened, there are events that this process cannot find, which is an error. An older one that cannot be
// opened is under a key that was lost, and what is hashed under it is lost with it.
func storedLabels(ctx context.Context, db row.Querier, keys *seal.Keyring, l Label) ([][]byte, error) {
	secrets, err := InstallationSecrets(ctx, db, keys, nil)
	if err != nil {
		return nil, err
	}
	out := [][]byte{l.Stored(nil)}
	for i, secret := range secrets {
		switch {
		case secret.Err == nil:
			out = append(out, l.Stored(secret.Value))
		case i == 0:
			return nil, fmt.Errorf("labels are hashed under a secret that cannot be opened here: %w", secret.Err)
		}
	}
	return out, nil
}
