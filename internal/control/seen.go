package control

import (
	"encoding/base64"
	"encoding/binary"
	"errors"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
)

// Seen are the effects and events that a dry run found, each in its state at that time. It is opaque: the caller sends
// it back with the decision, which applies only to these. Anything that has changed since is not touched.
type Seen string

// checkWhich refuses a request about many things, such as "dead letters", that does not say clearly which. It names them by
// ids, or sends back the seen of a dry run, which finds them by a filter; filtered says that it has one, or says all.
func checkWhich(things string, seen Seen, ids int, filtered, dryRun bool) error {
	switch {
	case seen != "" && (ids > 0 || filtered || dryRun):
		return invalid("seen says which: leave ids, filter, all and dry_run out")
	case seen != "":
		return nil
	case ids > 0 && filtered:
		return invalid("name ids or a filter, not both")
	case ids == 0 && !filtered:
		return invalid("name %s by ids or by a filter, or say all", things)
	case ids == 0 && !dryRun:
		return invalid("seen is missing: make the request with dry_run first, and hand back its seen")
	}
	return nil
}

// sight is one effect or event of a Seen.
type sight struct {
	id                inbox.ID
	event             bool
	version, revision int
}

// seenFormat is the first byte. It determines the format of the rest: for each object an id, whether it is an event,
// and two numbers.
const seenFormat = 1

func seenOf(all []sight) Seen {
	if len(all) == 0 {
		return ""
	}
	out := []byte{seenFormat}
	for _, s := range all {
		out = append(out, s.id[:]...)
		kind := byte(0)
		if s.event {
			kind = 1
		}
		out = append(out, kind)
		out = binary.AppendUvarint(out, uint64(s.version))
		out = binary.AppendUvarint(out, uint64(s.revision))
	}
	return Seen(base64.RawURLEncoding.EncodeToString(out))
}

var errSeen = errors.New("seen is not what a dry run gave; make one and hand its seen back")

func (s Seen) read(most int) ([]sight, error) {
	text, err := base64.RawURLEncoding.DecodeString(string(s))
	if err != nil || len(text) == 0 || text[0] != seenFormat {
		return nil, errSeen
	}
	var out []sight
	for text = text[1:]; len(text) > 0; {
		var one sight
		if len(text) < len(one.id)+1 || len(out) == most {
			return nil, errSeen
		}
		text = text[copy(one.id[:], text):]
		one.event, text = text[0] == 1, text[1:]
		for _, number := range []*int{&one.version, &one.revision} {
			n, size := binary.Uvarint(text)
			if size <= 0 || n > 1<<31 {
				return nil, errSeen
			}
			*number, text = int(n), text[size:]
		}
		out = append(out, one)
	}
	return out, nil
}

func (s sight) seen() decide.Seen { return decide.Seen{ID: s.id, Event: s.event, Revision: s.revision} }

func sightOf(s decide.Seen) sight { return sight{id: s.ID, event: s.Event, revision: s.Revision} }

// mapped returns a list with change applied to each element.
func mapped[From, To any](all []From, change func(From) To) []To {
	out := make([]To, len(all))
	for i, one := range all {
		out[i] = change(one)
	}
	return out
}

// chosen splits a list into the elements that this request handles and those left for the next one.
func chosen(all []sight) (now, left []sight) {
	n := min(len(all), step)
	return all[:n], all[n:]
}

func sightIDs(all []sight) []inbox.ID { return mapped(all, func(s sight) inbox.ID { return s.id }) }
