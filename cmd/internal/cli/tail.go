package cli

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/control"
)

// tailOverlap is the period that each poll of a tail reads again, because events are not committed
// in the order of their ids. The gate answers a delivery within 8 s, so a commit may become visible
// up to 8 s after the id was created. The remaining time allows for clock differences between
// receivers.
const tailOverlap = 15 * time.Second

// tailFilter filters what a tail shows.
type tailFilter struct {
	source, tenant, kind, route, admission string

	// effectState, if set, is the only state of the effects that are shown, and no events are
	// shown.
	effectState string
}

// tail follows events and the results of their effects. It uses only the times in ids, and not
// the local clock.
type tail struct {
	caller control.Caller
	filter tailFilter

	// event and effect are called to show one row. If event returns an error, the next poll passes
	// the row again. Without effect, effects are not read.
	event  func(context.Context, *read.EventRow) error
	effect func(*read.EffectRow) error

	floor   time.Time // no older event can still appear
	shown   map[inbox.ID]bool
	resumed map[[cursorBytes]byte]bool // events that the cursor names

	states map[inbox.ID]effectSeen // effects that are newer than floor, or not at rest
	order  []inbox.ID              // the effects in states that are older than floor, in the order of polling
	quiet  bool                    // the first poll records effects that are at rest without showing them
}

// effectSeen is the state in which an effect was last seen.
type effectSeen struct {
	state    string
	attempts int
}

const (
	tailPage = 500

	// tailOpen is how many unfinished effects are followed beyond the overlap. tailAsk is how many
	// of them each poll reads.
	tailOpen = 10_000
	tailAsk  = 20
)

func newTail(caller control.Caller, filter tailFilter) *tail {
	return &tail{caller: caller, filter: filter, shown: map[inbox.ID]bool{}, resumed: map[[cursorBytes]byte]bool{}, states: map[inbox.ID]effectSeen{}}
}

// startNow makes the tail begin with events recorded from now on.
func (t *tail) startNow(ctx context.Context) error {
	newest, ok, err := t.newest(ctx)
	if err != nil || !ok {
		return err
	}
	t.floor, t.quiet = newest.Add(-tailOverlap), true
	rows, err := t.events(ctx)
	if err != nil {
		return err
	}
	for i := range rows {
		t.shown[rows[i].ID] = true
	}
	return nil
}

// poll shows new events and effects.
func (t *tail) poll(ctx context.Context) error {
	// After this read, no event can appear that is older than the newest event before the read
	// minus the overlap.
	newest, ok, err := t.newest(ctx)
	if err != nil {
		return err
	}
	rows, err := t.events(ctx)
	if err != nil {
		return err
	}
	slices.SortFunc(rows, func(a, b read.EventRow) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	for i := range rows {
		row := &rows[i]
		if t.shown[row.ID] {
			continue
		}
		t.shown[row.ID] = true
		if t.resumed[shortID(row.ID)] || t.filter.effectState != "" {
			continue
		}
		if err := t.event(ctx, row); err != nil {
			delete(t.shown, row.ID)
			return err
		}
	}
	if err := t.pollEffects(ctx); err != nil {
		return err
	}
	if ok {
		t.advance(newest.Add(-tailOverlap))
	}
	return nil
}

// newest returns the time of the newest event that the caller may see, regardless of the other
// filters.
func (t *tail) newest(ctx context.Context) (time.Time, bool, error) {
	page, err := control.Call(ctx, t.caller, &control.ListEvents, control.ListEventsRequest{
		PageRequest: control.PageRequest{Limit: 1}, TenantFilter: control.TenantFilter{Tenant: t.filter.tenant},
	})
	if err != nil || len(page.Data) == 0 {
		return time.Time{}, false, err
	}
	return page.Data[0].ID.Time(), true, nil
}

// events returns all events since the floor.
func (t *tail) events(ctx context.Context) ([]read.EventRow, error) {
	request := control.ListEventsRequest{
		PageRequest: control.PageRequest{Limit: tailPage}, TenantFilter: control.TenantFilter{Tenant: t.filter.tenant},
		Source: t.filter.source, Type: t.filter.kind, Route: t.filter.route, State: t.filter.admission, Since: t.floor,
	}
	return everyPage(ctx, t.caller, &control.ListEvents, &request, &request.PageRequest)
}

// pollEffects shows the effects that have ended or are waiting for a retry.
func (t *tail) pollEffects(ctx context.Context) error {
	if t.filter.admission != "" || t.effect == nil {
		return nil // such events have no effects, or the tail does not show effects
	}
	request := control.ListEffectsRequest{
		PageRequest: control.PageRequest{Limit: tailPage},
		EffectFilter: control.EffectFilter{
			TenantFilter: control.TenantFilter{Tenant: t.filter.tenant}, Source: t.filter.source, Type: t.filter.kind, Route: t.filter.route, Since: t.floor,
		},
	}
	rows, err := everyPage(ctx, t.caller, &control.ListEffects, &request, &request.PageRequest)
	if err != nil {
		return err
	}
	slices.SortFunc(rows, func(a, b read.EffectRow) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	for i := range rows {
		if err := t.seeEffect(&rows[i]); err != nil {
			return err
		}
	}
	t.quiet = false
	for range min(tailAsk, len(t.order)) {
		id := t.order[0]
		t.order = t.order[1:]
		effect, err := control.Call(ctx, t.caller, &control.ShowEffect, control.IDRequest{ID: id})
		if err != nil {
			if control.ProblemOf(err).Code == control.CodeNotFound { // erased or pruned since the last poll
				delete(t.states, id)
				continue
			}
			return err
		}
		if err := t.seeEffect(&effect.EffectRow); err != nil {
			return err
		}
		if atRest(effect.State) {
			delete(t.states, id)
		} else {
			t.order = append(t.order, id)
		}
	}
	return nil
}

// seeEffect shows an effect whose state has changed.
func (t *tail) seeEffect(row *read.EffectRow) error {
	before, known := t.states[row.ID]
	now := effectSeen{state: row.State, attempts: row.Attempts}
	t.states[row.ID] = now
	tells := atRest(row.State) || row.State == string(inbox.EffectRetry)
	if !tells || known && before == now || t.quiet || t.filter.effectState != "" && t.filter.effectState != row.State {
		return nil
	}
	return t.effect(row)
}

// advance raises the floor and forgets the events and effects below it.
func (t *tail) advance(floor time.Time) {
	if !floor.After(t.floor) {
		return
	}
	t.floor = floor
	for id := range t.shown {
		if id.Time().Before(floor) {
			delete(t.shown, id)
		}
	}
	inTurn := make(map[inbox.ID]bool, len(t.order))
	for _, id := range t.order {
		inTurn[id] = true
	}
	var older []inbox.ID
	for id, seen := range t.states {
		switch {
		case !id.Time().Before(floor) || inTurn[id]:
		case atRest(seen.state) || len(t.order)+len(older) >= tailOpen:
			delete(t.states, id)
		default:
			older = append(older, id)
		}
	}
	slices.SortFunc(older, func(a, b inbox.ID) int { return bytes.Compare(a[:], b[:]) })
	t.order = append(t.order, older...)
}

// atRest reports whether an effect in the state changes only if someone acts on it.
func atRest(state string) bool {
	switch state {
	case "done", "dead", "indeterminate", "skipped", "superseded", "duplicate":
		return true
	}
	return false
}

// everyPage reads all pages of a list. page points to the part of request that selects the page.
func everyPage[Request, Row any](ctx context.Context, caller control.Caller, list *control.Operation[Request, read.Page[Row]], request *Request, page *control.PageRequest) ([]Row, error) {
	var rows []Row
	var guard endless
	for {
		got, err := control.Call(ctx, caller, list, *request)
		if err != nil {
			return nil, err
		}
		rows = append(rows, got.Data...)
		if !got.HasMore || got.Next == "" || got.Next == page.After {
			return rows, nil
		}
		if err := guard.check(got.Next, len(got.Data)); err != nil {
			return nil, err
		}
		page.After = got.Next
	}
}

const (
	tailCursorVersion = 1
	cursorBytes       = 6
	cursorEvents      = 40
)

// shortID returns the random end of an id, with which a cursor distinguishes events of the same
// seconds.
func shortID(id inbox.ID) [cursorBytes]byte { return [cursorBytes]byte(id[len(id)-cursorBytes:]) }

// cursor returns a text with which another tail can continue. It names the events of the overlap
// that were shown, unless there are too many. In that case, again is the number of events that will
// be shown again.
func (t *tail) cursor() (text string, again int) {
	out := binary.BigEndian.AppendUint64([]byte{tailCursorVersion}, uint64(max(t.floor.UnixMilli(), 0)))
	if len(t.shown) > cursorEvents {
		return base64.RawURLEncoding.EncodeToString(out), len(t.shown)
	}
	for id := range t.shown {
		short := shortID(id)
		out = append(out, short[:]...)
	}
	return base64.RawURLEncoding.EncodeToString(out), 0
}

// resume makes the tail continue at a cursor. It reports whether the text is a cursor.
func (t *tail) resume(text string) bool {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) < 9 || raw[0] != tailCursorVersion || (len(raw)-9)%cursorBytes != 0 {
		return false
	}
	t.floor = time.Time{}
	if ms := int64(binary.BigEndian.Uint64(raw[1:])); ms > 0 {
		t.floor = time.UnixMilli(ms)
	}
	for short := range slices.Chunk(raw[9:], cursorBytes) {
		t.resumed[[cursorBytes]byte(short)] = true
	}
	return true
}
