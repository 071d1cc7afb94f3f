package inbox

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/oncegate/oncegate/internal/pgtext"
)

const (
	// MaxLabels is how many labels a source may declare.
	MaxLabels = 8

	// MaxLabelValue is the greatest length of a label's value, in bytes. A longer value is not stored, because a search
	// could not find it by its beginning.
	MaxLabelValue = 255
)

// Label is a value by which you search events, with its name in the source's configuration.
type Label struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// ErrLabel is returned for a text that is no label.
var ErrLabel = errors.New("not a label; write name=value, such as order=1042")

var labelName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)

// IsLabelName reports whether a label may have the name, which is written before an equals sign.
func IsLabelName(name string) bool { return labelName.MatchString(name) }

// ParseLabel parses name=value. Its error says which of the two is invalid.
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

// Storable reports whether the label can be stored: its name is 1 to 63 bytes and its value 1 to 255 bytes of UTF-8 without NUL.
func (l Label) Storable() bool {
	return pgtext.Storable(l.Name) && len(l.Name) <= 63 && pgtext.Storable(l.Value)
}

// Stored returns the stored form of the value: the text or, with a secret of the installation, its HMAC. The HMAC prevents a person who
// has the tables from trying order numbers until one matches. It includes the name but not the source, so that one search finds
// the events of all sources. Stored: never change.
func (l Label) Stored(secret []byte) []byte {
	if secret == nil {
		return []byte(l.Value)
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("oncegate label\x00" + l.Name + "\x00" + l.Value))
	return mac.Sum(nil)
}
