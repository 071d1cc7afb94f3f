package operation

import (
	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/place"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/inbox/seal"
	"github.com/oncegate/oncegate/internal/pgtext"
	"github.com/oncegate/oncegate/internal/visible"
)

// lastAnswer is the stored last answer of an effect's target.
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

// detail returns the text for the caller of the operation. If no target answered, the text
// describes our network and its names, which only the operator may see. Therefore it is returned
// only if the target returned a code, or if the text is about the caller's own payload. Text that
// cannot be opened is left out: the code and the reason are enough.
func (a *lastAnswer) detail(keys *seal.Keyring, effect inbox.ID, why reasons.Reason) string {
	if (a.code == nil || *a.code == "") && why != reasons.Mapping && why != reasons.Render && why != reasons.Handler {
		return ""
	}
	if why == reasons.FetchFailed || why == reasons.FetchRefused {
		return "" // the server that the operator's credential asks is not the caller's
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
