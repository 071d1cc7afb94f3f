package gate

import (
	"slices"
	"strings"
	"time"

	"github.com/oncegate/oncegate/inbox"
)

// group is what one transaction admits: the first entry of each key leads, the
// others of that key are duplicates of it.
type group struct {
	deliveries []*delivery
	keyEntries []*keyEntry

	lane *lane // of its deliveries

	// transmissions: at least one event has a second key.
	transmissions bool

	// former: at least one event may be recorded under another id.
	former bool

	// labelled: a run wrote labels.
	labelled bool

	// lock bounds each wait for a lock.
	lock time.Duration
}

// keyEntry is the first of the group's entries for one key.
type keyEntry struct {
	*entry
	followers []*entry
	position  int // among the group's entries, as they came

	// What the run found:
	inserted        bool // inserted by this run
	insertedEarlier bool // inserted by an earlier run of ours that committed
	rowSHA          []byte
	rearm           bool
	suspected       bool
	repeats         inbox.ID // the call with the same arguments that came before
	admittedAs      string
}

type key struct {
	source  int32
	eventID string
}

// newGroup collapses equal keys and sorts by (source id, event id bytes): two
// groups that hold the same keys then lock them in the same order.
func newGroup(deliveries []*delivery) *group {
	g := &group{deliveries: deliveries, lane: deliveries[0].lane}
	leads := make(map[key]*keyEntry)
	for _, d := range deliveries {
		for i := range d.entries {
			e := &d.entries[i]
			e.row, e.differs = inbox.ID{}, false
			k := key{d.admission.Source.ID, e.eventID}
			if first, ok := leads[k]; ok {
				first.followers = append(first.followers, e)
				continue
			}
			g.transmissions = g.transmissions || e.event().Transmission != ""
			g.former = g.former || e.formerID != ""
			leads[k] = &keyEntry{entry: e, position: len(g.keyEntries)}
			g.keyEntries = append(g.keyEntries, leads[k])
		}
	}
	slices.SortFunc(g.keyEntries, func(a, b *keyEntry) int {
		if d := a.source().ID - b.source().ID; d != 0 {
			return int(d)
		}
		return strings.Compare(a.eventID, b.eventID)
	})
	return g
}

// try marks the deliveries as tried, and reports whether all of the group can be written before it is known which of its
// events are new. None of its deliveries may have been tried before: its event could be recorded already. Each must have
// one event, which decides about its body, and must not depend on calls, which are looked at in between.
func (g *group) try() bool {
	atOnce := true
	for _, d := range g.deliveries {
		atOnce = atOnce && !d.tried && d.partOf == nil && len(d.entries) == 1 && !d.dependsOnCalls()
		d.tried = true
	}
	return atOnce
}

func (e *entry) source() *inbox.Source { return e.delivery.admission.Source }

func (e *entry) event() *inbox.NewEvent { return &e.delivery.admission.Events[e.item] }

// resolve writes what the run found into the deliveries' receipts.
func (g *group) resolve() {
	for _, l := range g.keyEntries {
		first := l.inserted || l.insertedEarlier
		l.delivery.stored = l.delivery.stored || first
		l.receipt(first, l)
		for _, follower := range l.followers {
			follower.receipt(false, l)
		}
	}
}

func (e *entry) receipt(first bool, l *keyEntry) {
	out := &e.delivery.receipt.Items[e.item]
	*out = inbox.ItemReceipt{
		ID: l.row, Outcome: inbox.Duplicate, Unusable: l.admittedAs == inbox.AdmissionUnusable, BeyondRetention: l.admittedAs == inbox.AdmissionBeyondRetention,
	}
	e.row = l.row
	if e.source().Strict {
		out.Intent = e.intent()
	}
	if first {
		out.Outcome, out.Effects, out.SuspectedReplay, out.Repeats = inbox.Recorded, len(e.effects), l.suspected, l.repeats
		return
	}
	// A row from before there was a keyring has the hash without a key.
	e.differs = string(e.stored) != string(l.rowSHA) && string(e.sha[:]) != string(l.rowSHA)
}

// intent is the hash of what the event says: of its canonical form or, where it has none, of its bytes.
func (e *entry) intent() []byte {
	if e.canonical != nil {
		return e.canonical
	}
	return e.sha[:]
}
