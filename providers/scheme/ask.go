package scheme

import (
	"errors"
	"log/slog"
)

// Asker asks a provider about a request, if the signature alone does not prove enough. Its
// implementation restricts the addresses that it contacts, keeps the access token until shortly
// before it expires, and limits size, time and number of the questions. It does not cache answers.
//
// An error is never the sender's fault: the question could not be sent, or the answer was not 200.
// It contains no credential and nothing of the request.
type Asker interface {
	Ask(q *Question) (answer []byte, err error)
}

// Question is a request that is posted to a provider.
type Question struct {
	// URL and the grant's URL must be https with a host from Hosts, as in [KeyRequest].
	URL   string
	Hosts []string

	// Body is JSON. It is posted unchanged.
	Body []byte

	Grant Grant
}

// Grant contains the OAuth 2.0 client credentials for an access token. Its formatting methods hide
// them.
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

var errNoAsker = errors.New("the provider must be asked, but no client is configured for it")

func (in *Input) ask(q *Question) ([]byte, error) {
	if in.Asker == nil {
		return nil, errNoAsker
	}
	return in.Asker.Ask(q)
}
