package fetch

import (
	"crypto/sha256"
	"time"

	"github.com/oncegate/oncegate/providers/scheme"
)

const (
	// maxUnproven is how many documents are kept that have verified nothing. The one
	// that was tried longest ago makes room.
	maxUnproven = 256

	// maxProven is how many documents are kept that requests name and that have verified
	// something. The one that has not done so for longest makes room.
	maxProven = 512

	// maxMissing is how many answers in a row must say that a document which has
	// verified something does not exist, a pause apart, before it is no longer used.
	maxMissing = 2
)

// digest identifies a document. What is posted may be a credential, so it is hashed.
type digest [sha256.Size]byte

func digestOf(want *scheme.KeyRequest) digest {
	return sha256.Sum256(append([]byte(want.URL+"\n"), want.Body...))
}

// document is a copy and what is known of fetching it.
type document struct {
	url     string
	claimed bool // a request named it, and not the configuration

	text    []byte    // the last good copy; nil if there is none
	at      time.Time // when it was got
	tried   time.Time // the last attempt
	err     error     // of the last attempt
	missing int       // answers in a row that there is no such document

	running *attempt // nil if there is none
	waiting int      // requests that wait for it

	proven bool      // it has verified something
	proved time.Time // when it last did
	saved  time.Time // when the store was last told; zero if it does not have this copy
}

// attempt is one request to a key store. The fields below done are set when it closes.
type attempt struct {
	source *Source // whose budget it is of; nil if it needs none
	done   chan struct{}

	text []byte // the copy that is now in use; nil if there is none
	err  error
}

// trusted reports whether nobody can make us ask for the document by inventing its name.
func (d *document) trusted() bool { return d.proven || !d.claimed }

// documents are those of all sources, by their digest.
type documents map[digest]*document

// add makes an entry for what has verified nothing yet.
func (all documents) add(key digest, want *scheme.KeyRequest) *document {
	if want.Claimed {
		all.makeRoom(maxUnproven, func(d *document) bool { return !d.trusted() }, func(d *document) time.Time { return d.tried })
	}
	d := &document{url: want.URL, claimed: want.Claimed}
	all[key] = d
	return d
}

// prove marks a document as one that has verified something.
func (all documents) prove(d *document, at time.Time) {
	if d.claimed && !d.proven {
		all.makeRoom(maxProven, func(d *document) bool { return d.proven && d.claimed }, func(d *document) time.Time { return d.proved })
	}
	d.proven = true
	if at.After(d.proved) {
		d.proved = at
	}
}

// makeRoom removes the oldest of a kind if there are as many as there may be.
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
