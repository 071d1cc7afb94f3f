package providers

import (
	"errors"

	schemes "github.com/oncegate/oncegate/providers/scheme"
)

// maxDiagnoseFetches is how many documents of keys a search may request, because a hundred variants
// of a request must not cause a hundred fetches.
const maxDiagnoseFetches = 2

var errEnoughFetched = errors.New("the diagnosis fetches no more keys")

type fetched struct {
	text []byte
	err  error
}

// unasked prevents a search from asking the provider about every variant. A variant that reaches
// the question has passed all other checks.
type unasked struct{}

var errUnasked = errors.New("the diagnosis asks the provider nothing")

// Ask implements [Asker].
func (unasked) Ask(*schemes.Question) ([]byte, error) { return nil, errUnasked }

// sparingFetcher caches the documents for one search.
type sparingFetcher struct {
	from Fetcher
	got  map[string]fetched
}

// Fetch returns a document. It fetches each document once in a search.
func (f *sparingFetcher) Fetch(want schemes.KeyRequest) ([]byte, error) {
	key := want.URL + "\n" + string(want.Body)
	if got, ok := f.got[key]; ok {
		return got.text, got.err
	}
	if len(f.got) >= maxDiagnoseFetches {
		return nil, errEnoughFetched
	}
	want.Renew = false
	want.Held = true // the verification has already fetched, so a search uses cached copies only
	text, err := f.from.Fetch(want)
	f.got[key] = fetched{text, err}
	return text, err
}
