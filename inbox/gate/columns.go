package gate

import (
	"slices"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// columns are the events of a group as arrays, one for each parameter of
// [insertEvents].
type columns struct {
	ids                          []inbox.ID
	sourceIDs                    []int32
	eventIDs, types              []string
	shas, canonicals             [][]byte
	occurredAt, receivedAt       []*time.Time
	admissions                   []string
	details                      []*string
	classes                      []string
	bodyIDs                      []inbox.ID
	items, offsets, lengths, dup []int32
	traceparents                 []*string
	unsigned, rearms             []bool
	parents                      []inbox.ID
}

func newColumns(leads []*lead) *columns {
	n := len(leads)
	c := &columns{
		ids: make([]inbox.ID, 0, n), sourceIDs: make([]int32, 0, n), eventIDs: make([]string, 0, n), types: make([]string, 0, n),
		shas: make([][]byte, 0, n), canonicals: make([][]byte, 0, n), occurredAt: make([]*time.Time, 0, n), receivedAt: make([]*time.Time, 0, n),
		admissions: make([]string, 0, n), details: make([]*string, 0, n), classes: make([]string, 0, n), bodyIDs: make([]inbox.ID, 0, n),
		items: make([]int32, 0, n), offsets: make([]int32, 0, n), lengths: make([]int32, 0, n), dup: make([]int32, 0, n),
		traceparents: make([]*string, 0, n), unsigned: make([]bool, 0, n), rearms: make([]bool, 0, n),
		parents: make([]inbox.ID, 0, n),
	}
	for _, l := range leads {
		a, event := l.delivery.admission, l.event()
		eventType := event.Type
		if l.admission == inbox.AdmissionUnusable && !row.Storable(eventType) {
			eventType = ""
		}
		c.ids = append(c.ids, l.id)
		c.sourceIDs = append(c.sourceIDs, a.Source.ID)
		c.eventIDs = append(c.eventIDs, l.eventID)
		c.types = append(c.types, eventType)
		c.shas = append(c.shas, l.sha[:])
		c.canonicals = append(c.canonicals, l.canonical)
		c.occurredAt = append(c.occurredAt, row.Micros(event.OccurredAt))
		c.receivedAt = append(c.receivedAt, row.Micros(a.ReceivedAt))
		c.admissions = append(c.admissions, l.admission)
		c.details = append(c.details, row.Optional(l.detail))
		c.classes = append(c.classes, a.Source.Class)
		c.bodyIDs = append(c.bodyIDs, l.delivery.bodyID)
		c.items = append(c.items, int32(l.item))
		c.offsets = append(c.offsets, int32(event.Offset))
		c.lengths = append(c.lengths, int32(event.Length))
		c.dup = append(c.dup, int32(1+len(l.followers)))
		c.traceparents = append(c.traceparents, row.Optional(a.Traceparent))
		c.unsigned = append(c.unsigned, a.IDUnsigned && l.admission != inbox.AdmissionUnusable)
		c.rearms = append(c.rearms, a.Source.Rearm >= 0 && !a.Source.Strict)
		c.parents = append(c.parents, event.Parent)
	}
	return c
}

func (c *columns) insertArgs() []any {
	return []any{
		c.ids, c.sourceIDs, c.eventIDs, c.types, c.shas, c.canonicals, c.occurredAt, c.receivedAt, c.admissions, c.details,
		c.classes, c.bodyIDs, c.items, c.offsets, c.lengths, c.dup, c.traceparents, c.unsigned, c.parents,
	}
}

type bodyColumns struct {
	classes         []string
	ids             []inbox.ID
	headers, bodies [][]byte
	keyIDs          []*int32
}

// add adds the delivery's body once, however many of its events are new. A
// group is at most a few hundred deliveries, but one may carry thousands of
// events, so the last added is looked at first.
func (c *bodyColumns) add(d *delivery) {
	for _, v := range slices.Backward(c.ids) {
		if v == d.bodyID {
			return
		}
	}
	c.classes = append(c.classes, d.admission.Source.Class)
	c.ids = append(c.ids, d.bodyID)
	c.headers = append(c.headers, d.headers)
	c.bodies = append(c.bodies, d.body)
	c.keyIDs = append(c.keyIDs, d.keyID)
}

type effectColumns struct {
	ids, eventIDs           []inbox.ID
	routeIDs, routeVersions []int32
	keys                    []string
	jobIDs                  []int64
}

func (c *effectColumns) add(event inbox.ID, e *effectRow, job int64) {
	c.ids = append(c.ids, e.id)
	c.eventIDs = append(c.eventIDs, event)
	c.routeIDs = append(c.routeIDs, e.route.ID)
	c.routeVersions = append(c.routeVersions, e.route.Version)
	c.keys = append(c.keys, e.key)
	c.jobIDs = append(c.jobIDs, job)
}

type bumpColumns struct {
	ids    []inbox.ID
	counts []int32
}

func (c *bumpColumns) add(id inbox.ID, n int) {
	c.ids = append(c.ids, id)
	c.counts = append(c.counts, int32(n))
}
