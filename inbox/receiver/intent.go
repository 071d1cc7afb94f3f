package receiver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"

	"github.com/oncegate/oncegate/inbox"
)

// checkIntent refuses a call whose payload does not have the intent hash that its caller sent in
// [HeaderIntentHash]. Nothing of it is recorded. A call that is recorded already is left to the gate,
// which knows the comparison that made its hash.
func (o *operations) checkIntent(ctx context.Context, req *request, event *inbox.NewEvent, body []byte) (result, bool) {
	given := req.http.Header[http.CanonicalHeaderKey(HeaderIntentHash)]
	if len(given) == 0 {
		return result{}, true
	}
	intent, detail := matchIntent(req.source.Inbox.Comparison(event.Type), given, body[event.Offset:event.Offset+event.Length])
	if detail == "" {
		return result{}, true
	}
	switch known, err := o.recorded(ctx, req, event); {
	case err != nil:
		return result{outcome: outcomeUnavailable}, false
	case known:
		return result{}, true
	}
	res := o.refuse(req, nil, reasonIntent, detail)
	res.problem.intentHash = intent
	return res, false
}

// matchIntent returns the intent hash of a payload, and one line that says why the given hash
// differs; detail is empty if it matches.
func matchIntent(comparison *inbox.Comparison, given []string, payload []byte) (intent []byte, detail string) {
	intent = intentHash(comparison, payload)
	if len(given) > 1 {
		return intent, "header " + HeaderIntentHash + " is there twice"
	}
	want, err := hex.DecodeString(strings.Trim(given[0], `"`))
	switch {
	case err != nil || len(want) != sha256.Size:
		return intent, "header " + HeaderIntentHash + " is not a SHA-256 in hex, of 64 digits"
	case string(want) == string(intent), comparison.Recognize(inbox.InstallationSecret{}, want, payload) != nil:
		return intent, ""
	}
	return intent, "the payload has the intent hash " + hex.EncodeToString(intent) + ", and not that of header " + HeaderIntentHash
}

// intentHash is the hash of the payload's canonical form; of its bytes if it has none.
func intentHash(comparison *inbox.Comparison, payload []byte) []byte {
	if intent := comparison.Sum(payload); intent != nil {
		return intent
	}
	sum := sha256.Sum256(payload)
	return sum[:]
}
