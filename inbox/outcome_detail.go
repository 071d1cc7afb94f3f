package inbox

import (
	"github.com/oncegate/oncegate/inbox/internal/place"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/inbox/seal"
	"github.com/oncegate/oncegate/internal/pgtext"
	"github.com/oncegate/oncegate/visible"
)

// lastAnswer is what an effect's target said last, as it is stored.
type lastAnswer struct {
	lastCode, code, excerpt *string
	keyID                   *int32
	sealed                  []byte
}

// givenCode is the code of the last attempt, else the last one that any attempt was given.
func (a *lastAnswer) givenCode() string {
	for _, code := range []*string{a.code, a.lastCode} {
		if code != nil && *code != "" {
			return *code
		}
	}
	return ""
}

// detail is the text for the caller of the operation. Where nobody answered, the text is about how
// our network and its names are, which is for the operator alone; so it is given only if the target
// gave a code, or if the text is about the caller's own payload. What cannot be opened is left out:
// the code and the reason say enough to go on.
func (a *lastAnswer) detail(keys *seal.Keyring, effect ID, why Reason) string {
	if (a.code == nil || *a.code == "") && why != reasons.Mapping && why != reasons.Render && why != reasons.Handler {
		return ""
	}
	var text string
	switch {
	case a.excerpt != nil:
		text = *a.excerpt
	case a.sealed != nil:
		plain, err := keys.Open(place.Excerpt(effect), a.keyID, a.sealed)
		if err != nil {
			return ""
		}
		text = string(plain)
	}
	return pgtext.Clean(visible.Text(pgtext.Clean(text, maxDetail)), maxDetail)
}
