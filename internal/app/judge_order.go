package app

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/inbox/sequence"
)

// passed returns why an effect of an ordered route would not be carried out because its sequence
// has moved past it. It is empty if the effect would be carried out.
// its sequence has come further; empty if it would.
func (r *judgedRoute) passed(e *replay.RecordedEffect) string {
	policy := r.inbox.Order.WithDefaults()
	number, err := sequence.ParseNumber(e.SequenceNumber)
	applied, unknown := sequence.ParseNumber(e.Applied)
	if !policy.Ordered() || err != nil || unknown != nil {
		return ""
	}
	switch order := number.Compare(applied); {
	case policy.Mode == sequence.Latest && order < 0:
		return "a newer version, " + applied.String() + ", was applied: it would be superseded"
	case policy.Mode == sequence.Contiguous && order <= 0 && policy.Late == sequence.LateDrop:
		return "its sequence has passed it, at " + applied.String() + ": late ones are dropped"
	case policy.Mode == sequence.Contiguous && order <= 0 && policy.Late == sequence.LateDead:
		return "its sequence has passed it, at " + applied.String() + ": late ones are dead"
	}
	return ""
}

// replaced returns how the event's place in the route's sequence would differ from the recorded one
// if it were admitted today.
func (r *judgedRoute) replaced(event *judgedEvent, e *replay.RecordedEffect) (out []replay.Change) {
	mode := r.inbox.Order.WithDefaults().Mode
	if event.item == nil || e.SequenceKeyHash == nil || mode == "" || mode == sequence.None {
		return nil
	}
	key, text, timed := event.item.SequenceKey, event.item.SequenceNumber, publishesTimes(r.source.Source)
	if r.inbox.Sequence != nil {
		key, text, timed = r.inbox.Sequence(&inbox.Admission{
			Body: event.Delivery, Headers: event.Event.Headers, ReceivedAt: event.Event.ReceivedAt, Events: []inbox.NewEvent{{
				EventID: event.Event.EventID, Type: event.Event.Type, OccurredAt: event.Event.OccurredAt,
				Offset: event.Offset, Length: event.Length, SequenceKey: key, SequenceNumber: text,
			}},
		}, 0)
	}
	if !bytes.Equal(r.keyHash(key), e.SequenceKeyHash) {
		out = append(out, replay.Change{Path: "sequence_key", After: short([]byte(key))}) // only the hash of the recorded key is known
	}
	if mode == sequence.Arrival {
		return out // the database gave its number
	}
	number, err := sequence.ParseNumber(text)
	if err == nil && timed && number.AheadOf(event.Event.ReceivedAt) && e.SequenceNumber == "" {
		return out // it was given no place, and would be given none today
	}
	recorded, unknown := sequence.ParseNumber(e.SequenceNumber)
	if err != nil || unknown != nil || number.Compare(recorded) != 0 {
		out = append(out, replay.Change{Path: "sequence_number", Before: e.SequenceNumber, After: short([]byte(text))})
	}
	return out
}

// keyHash returns the stored form of a sequence key of the route.
func (r *judgedRoute) keyHash(key string) []byte {
	return r.inbox.Series.KeyHash(cmp.Or(r.source.keyName, r.source.Name), cmp.Or(r.inbox.KeyName, r.Name), key)
}

// place adds the changes of the sequence to the diff of an effect.
func (r *judgedRoute) place(event *judgedEvent, e *replay.RecordedEffect, d *diff) {
	if changes := r.replaced(event, e); len(changes) > 0 {
		d.Identity = append(slices.Clone(d.Identity), changes...)
	}
}
