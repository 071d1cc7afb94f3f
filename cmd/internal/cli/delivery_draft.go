package cli

import (
	"errors"
	"time"

	"github.com/oncegate/oncegate/internal/delivery"
	"github.com/oncegate/oncegate/providers"
)

// draft creates the delivery from a fixture, a file or the provider's example, with the requested event
// id and type in the places that the provider uses.
func (s *shell) draft(p *providers.Provider, f sendFlags) (*delivery.Draft, error) {
	o := delivery.Options{EventID: f.eventID, Type: f.kind, Fixture: f.payload, At: f.at}
	if o.At.IsZero() {
		o.At = time.Now()
	}
	if f.eventID != "" {
		// A chosen id names one event, so its payload must be the same in every run of a day;
		// otherwise the second run would cause a conflict. The payload's time is not older, because
		// an older event would be held for its age.
		o.Made = o.At.UTC().Truncate(24 * time.Hour)
	}
	if f.file != "" {
		var err error
		if o.Body, err = s.readFile("--file", f.file); err != nil {
			return nil, err
		}
	}
	d, err := delivery.New(p, o)
	switch {
	case errors.Is(err, delivery.ErrNoExample):
		return nil, usagef("%v of %s: add --file payload.json", err, clean(p.Name()))
	case errors.Is(err, delivery.ErrNoType):
		return nil, usagef("%v: add --type, such as --type push", err)
	case err != nil:
		return nil, usagef("%s", oneLine(err.Error()))
	}
	d.Header.Set("User-Agent", "oncegate-send")
	return d, nil
}

// listFixtures shows the fixtures.
func (s *shell) listFixtures() error {
	fixtures := delivery.Fixtures()
	t := &table{header: []string{"FIXTURE", "PROVIDER", "TYPE", "WHAT HAPPENED"}, spare: []string{"WHAT HAPPENED", "TYPE"}, whole: []string{"FIXTURE"}}
	for _, f := range fixtures {
		t.add(f.Name, f.Provider, f.Type, f.About)
	}
	return s.show(t, fixtures)
}
