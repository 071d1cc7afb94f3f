package providers

import (
	"errors"

	schemes "github.com/oncegate/oncegate/providers/scheme"
)

// maxDiagnoseFetches is how many documents of keys a search may ask for: a
// hundred variants of a request must not become a hundred fetches.
const maxDiagnoseFetches = 2

var errEnoughFetched = errors.New("the diagnosis fetches no more keys")

type fetched struct {
	text []byte
	err  error
}

// unasked keeps a search from asking the provider about every variant. What would
// be asked about is right in all that can be told here.
type unasked struct{}

var errUnasked = errors.New("the diagnosis asks the provider nothing")

// Ask implements [Asker].
func (unasked) Ask(*schemes.Question) ([]byte, error) { return nil, errUnasked }

// sparingFetcher remembers what it got, for one search.
type sparingFetcher struct {
	from Fetcher
	got  map[string]fetched
}

// Fetch gives a document, once fetched for the whole search.
func (f *sparingFetcher) Fetch(want schemes.KeyRequest) ([]byte, error) {
	key := want.URL + "\n" + string(want.Body)
	if got, ok := f.got[key]; ok {
		return got.text, got.err
	}
	if len(f.got) >= maxDiagnoseFetches {
		return nil, errEnoughFetched
	}
	want.Renew = false
	want.Held = true // the verification has asked before: a search is no reason to ask anybody
	text, err := f.from.Fetch(want)
	f.got[key] = fetched{text, err}
	return text, err
}
