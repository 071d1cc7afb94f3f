package scheme

import (
	"errors"
	"log/slog"
)

// Asker asks a provider about a request, where a signature alone says too little.
// Its implementation guards what may be reached, keeps the access token until
// shortly before its end, and bounds size, time and number. Answers are not kept.
//
// An error is never the sender's: the question could not be asked, or was not
// answered with 200. It holds no credential and nothing of the request.
type Asker interface {
	Ask(q *Question) (answer []byte, err error)
}

// Question is what is posted to a provider.
type Question struct {
	// URL must be https, its host one of Hosts, as in [KeyRequest]; so must be the
	// grant's.
	URL   string
	Hosts []string

	// Body is JSON, and posted byte for byte.
	Body []byte

	Grant Grant
}

// Grant is what an access token is got with: OAuth 2.0 client credentials. It
// cannot print itself.
type Grant struct{ URL, ID, Secret string }

const redacted = "<grant>"

// String hides the credentials.
func (Grant) String() string { return redacted }

// GoString hides the credentials.
func (Grant) GoString() string { return redacted }

// LogValue hides the credentials.
func (Grant) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalJSON hides the credentials.
func (Grant) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }

var errNoAsker = errors.New("the provider is to be asked, and there is nothing to ask it with")

func (in *Input) ask(q *Question) ([]byte, error) {
	if in.Asker == nil {
		return nil, errNoAsker
	}
	return in.Asker.Ask(q)
}
