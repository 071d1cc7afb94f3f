package providertest_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
	"github.com/oncegate/oncegate/providers/providertest"
	"github.com/oncegate/oncegate/providers/testdata"
)

// TestPayloads checks that every published payload results in its events with their ids, types,
// times and positions, and that two payloads have the same events only if one is a retry of the
// other.
func TestPayloads(t *testing.T) {
	t.Parallel()
	loaded := catalogtest.Load(t)
	for name, p := range loaded {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			payloads, err := providertest.Payloads(testdata.Files, name)
			if err != nil {
				t.Fatal(err)
			}
			ids := map[string]string{}
			of := map[string][]string{}
			for i := range payloads {
				c := &payloads[i]
				req := c.Request()
				req.ReceivedAt = req.ReceivedAt.Add(time.Duration(i) * time.Second)
				items := p.Inspect(req).Items
				if len(items) != len(c.Events) || len(items) == 0 {
					t.Errorf("%s: %d events, not %d: %+v", c.Case, len(items), len(c.Events), items)
					continue
				}
				for n := range items {
					if got := payloadEvent(&items[n]); got != c.Events[n] {
						t.Errorf("%s: event %d is %+v, not %+v", c.Case, n, got, c.Events[n])
					}
					of[c.Case] = append(of[c.Case], items[n].EventID)
					other, taken := ids[items[n].EventID]
					switch {
					case taken && c.RetryOf == "":
						t.Errorf("%s: is taken for %s", c.Case, other)
					case !taken && c.RetryOf != "":
						t.Errorf("%s: is an event of its own", c.Case)
					}
					ids[items[n].EventID] = c.Case
				}
				if c.RetryOf != "" && !slices.Equal(of[c.Case], of[c.RetryOf]) {
					t.Errorf("%s: is another event than %s", c.Case, c.RetryOf)
				}
			}
		})
	}
}

func payloadEvent(item *providers.Item) providertest.PayloadEvent {
	out := providertest.PayloadEvent{ID: item.EventID, Type: item.Type, SequenceKey: item.SequenceKey, SequenceNumber: item.SequenceNumber}
	for _, kind := range []string{"digest", "level"} {
		if strings.HasPrefix(item.EventID, map[string]string{"digest": "sha256:", "level": "level:"}[kind]) {
			out.ID = kind
		}
	}
	if !item.OccurredAt.IsZero() {
		out.OccurredAt = item.OccurredAt.Format(time.RFC3339Nano)
	}
	if item.Unusable != "" {
		out.ID = "unusable: " + item.Unusable
	}
	return out
}

// An entry rests on what its sender publishes, and names it, or on an example of our
// own, and is marked by that. It is marked too, by example.own, where no published
// payload shows its type, time or sequence. The marked ones are fewer than a third.
func TestPayloadsArePublished(t *testing.T) {
	t.Parallel()
	loaded := catalogtest.Load(t)
	var own []string
	for name, p := range loaded {
		payloads, err := providertest.Payloads(testdata.Files, name)
		if err != nil {
			t.Fatal(err)
		}
		source := p.Spec().Example.Source
		if source == "" || len(p.Spec().Example.Own) > 0 {
			own = append(own, name)
		}
		if missing := unseen(p, payloads); source != "" && !slices.Equal(missing, p.Spec().Example.Own) {
			t.Errorf("%s: example.own is %v, and no published payload shows %v", name, p.Spec().Example.Own, missing)
		}
		if (source == "") != (len(payloads) == 0) {
			t.Errorf("%s: example.source and payloads.json go together", name)
		}
		if source != "" && !slices.ContainsFunc(payloads, func(c providertest.Payload) bool { return c.Source == source }) {
			t.Errorf("%s: no payload is from %s", name, source)
		}
		for i := range payloads {
			if !strings.HasPrefix(payloads[i].Source, "https://") {
				t.Errorf("%s: %s has no source", name, payloads[i].Case)
			}
		}
	}
	t.Logf("%d of %d entries rest on an example of our own", len(own), len(loaded))
	if 3*len(own) >= len(loaded) {
		slices.Sort(own)
		t.Errorf("%d of %d entries rest on an example of our own, a third or more: %v", len(own), len(loaded), own)
	}
}

// unseen are what a spec reads and no published payload has.
func unseen(p *providers.Provider, payloads []providertest.Payload) []string {
	spec := p.Spec()
	has := map[string]bool{"type": len(spec.Type) == 0, "occurred_at": len(spec.OccurredAt) == 0, "sequence": spec.Sequence.Kind == "none"}
	for i := range payloads {
		for _, item := range p.Inspect(payloads[i].Request()).Items {
			has["type"] = has["type"] || item.Type != "" && !item.Unknown
			has["occurred_at"] = has["occurred_at"] || !item.OccurredAt.IsZero()
			has["sequence"] = has["sequence"] || item.SequenceKey != ""
		}
	}
	var out []string
	for _, name := range []string{"type", "occurred_at", "sequence"} {
		if !has[name] {
			out = append(out, name)
		}
	}
	return out
}
