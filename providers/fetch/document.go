package fetch

import (
	"crypto/sha256"
	"time"

	"github.com/oncegate/oncegate/providers/scheme"
)

const (
	// maxUnproven is how many unproven documents are kept. The document with the oldest attempt is
	// evicted first.
	maxUnproven = 256

	// maxProven is how many proven documents named by requests are kept. The document that last
	// verified a request longest ago is evicted first.
	maxProven = 512

	// maxMissing is how many answers in a row, a pause apart, must say that a proven document does
	// not exist before it is no longer used.
	maxMissing = 2
)

// digest identifies a document. It is a hash because the posted body may contain a credential.
type digest [sha256.Size]byte

func digestOf(want *scheme.KeyRequest) digest {
	return sha256.Sum256(append([]byte(want.URL+"\n"), want.Body...))
}

// document is a cached copy and the state of fetching it.
type document struct {
	url     string
	claimed bool // a request named it, not the configuration

	text    []byte    // the last good copy; nil if there is none
	at      time.Time // when text was fetched
	tried   time.Time // the time of the last attempt
	err     error     // the error of the last attempt
	missing int       // answers in a row that the document does not exist

	running *attempt // nil if no attempt is running
	waiting int      // number of requests that wait for it

	proven bool      // it has verified a request
	proved time.Time // when it last verified a request
	saved  time.Time // when the copy was last queued for the store; zero if the store does not have it
}

// attempt is one request to a key store. The fields after done are set before done is closed.
type attempt struct {
	source *Source // the source whose budget is charged; nil if the attempt needs none
	done   chan struct{}

	text []byte // the copy now in use; nil if there is none
	err  error
}

// trusted reports whether the document is proven or configured, so that a forged request cannot
// have invented its name.
func (d *document) trusted() bool { return d.proven || !d.claimed }

// documents contains the documents of all sources, by digest.
type documents map[digest]*document

// add creates an entry for a document that has verified nothing yet.
func (all documents) add(key digest, want *scheme.KeyRequest) *document {
	if want.Claimed {
		all.makeRoom(maxUnproven, func(d *document) bool { return !d.trusted() }, func(d *document) time.Time { return d.tried })
	}
	d := &document{url: want.URL, claimed: want.Claimed}
	all[key] = d
	return d
}

// prove marks a document as one that has verified a request.
func (all documents) prove(d *document, at time.Time) {
	if d.claimed && !d.proven {
		all.makeRoom(maxProven, func(d *document) bool { return d.proven && d.claimed }, func(d *document) time.Time { return d.proved })
	}
	d.proven = true
	if at.After(d.proved) {
		d.proved = at
	}
}

// makeRoom removes the oldest document of a kind if there are at least most of that kind. It never
// removes one with a running attempt.
func (all documents) makeRoom(most int, kind func(d *document) bool, age func(d *document) time.Time) {
	var oldest digest
	var found *document
	count := 0
	for key, d := range all {
		if !kind(d) {
			continue
		}
		count++
		if d.running == nil && (found == nil || age(d).Before(age(found))) {
			oldest, found = key, d
		}
	}
	if count >= most && found != nil {
		delete(all, oldest)
	}
}
