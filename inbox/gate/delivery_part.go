package gate

import (
	"errors"

	"github.com/oncegate/oncegate/inbox"
)

// errBodyGone means that the body that an earlier part of the delivery stored was
// erased. A new run stores it again.
var errBodyGone = errors.New("the body of the delivery was erased before all of its events were recorded")

// record queues the delivery and waits until it is committed. A delivery with more
// events than fit a group is committed in parts of half a group, one after the other,
// so that other deliveries are committed together with them and in between. If a part
// fails, the rest is not tried: the committed parts stay, and when the sender delivers
// again, as the answer asks, they are duplicates.
func (g *Gate) record(d *delivery) error {
	if len(d.entries) <= g.cfg.GroupEvents {
		if err := g.enqueue(d); err != nil {
			return err
		}
		<-d.done
		return d.err
	}
	size := int64(d.size())
	if !g.reserve(d.lane, size) {
		return ErrOverloaded
	}
	defer d.lane.queuedBytes.Add(-size)
	length := max(g.cfg.GroupEvents/2, 1)
	for from := 0; from < len(d.entries); from += length {
		part := d.part(from, min(from+length, len(d.entries)))
		if err := g.enqueue(part); err != nil {
			return err
		}
		<-part.done
		if part.err != nil {
			return part.err
		}
	}
	return nil
}

// part is some of the delivery's events, which are committed together. The first part
// with a new event stores the body; the later parts check that it still exists, and
// lock it, before their events refer to it.
func (d *delivery) part(from, to int) *delivery {
	return &delivery{
		admission: d.admission, bodyID: d.bodyID, queuedAt: d.queuedAt, entered: d.entered, entries: d.entries[from:to],
		partOf: d, lane: d.lane, secret: d.secret, done: make(chan struct{}),
	}
}

// A share lock keeps the body from being erased until the events that point to it
// are committed; prune.EraseEvent locks the body before it looks for its events.
const lockBodies = `
SELECT b.id
FROM unnest($1::text[], $2::uuid[]) AS k (class, id)
JOIN inbox_body b ON b.class = k.class AND b.id = k.id
FOR KEY SHARE OF b`

// storedBodies are the bodies that earlier parts stored.
func (g *group) storedBodies() (classes []string, ids []inbox.ID, whole map[inbox.ID]*delivery) {
	for _, d := range g.deliveries {
		if d.partOf == nil || !d.partOf.stored {
			continue
		}
		if whole == nil {
			whole = map[inbox.ID]*delivery{}
		}
		classes, ids = append(classes, d.admission.Source.Class), append(ids, d.bodyID)
		whole[d.bodyID] = d.partOf
	}
	return classes, ids, whole
}
