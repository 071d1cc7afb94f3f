package delivery_test

import (
	"slices"
	"testing"
	"time"

	"github.com/oncegate/oncegate/internal/delivery"
	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
	"github.com/oncegate/oncegate/providers/providertest"
	"github.com/oncegate/oncegate/providers/testdata"
)

// Every fixture verifies, has the type that the list says, which the sender knows, and two of them are two events.
func TestFixturesVerify(t *testing.T) {
	t.Parallel()
	all, fixtures := catalogtest.Load(t), delivery.Fixtures()
	if len(fixtures) < 20 {
		t.Errorf("there are %d fixtures", len(fixtures))
	}
	at := time.Now()
	for _, fixture := range fixtures {
		t.Run(fixture.Name, func(t *testing.T) {
			t.Parallel()
			p := all[fixture.Provider]
			if p == nil {
				t.Fatalf("there is no provider %s", fixture.Provider)
			}
			value, _ := providertest.SecretOf(t, testdata.Files, fixture.Provider)
			secret := providers.Secret{Name: "test", Value: []byte(value)}
			item := func(id string) providers.Item {
				draft, err := delivery.New(p, delivery.Options{EventID: id, Fixture: &fixture, At: at})
				if err != nil {
					t.Fatal(err)
				}
				r, err := draft.Sign(p, "", "https://hooks.example.com/in/"+p.Name(), secret)
				if err != nil {
					t.Fatal(err)
				}
				verified, err := p.Verify(r, []providers.Secret{secret})
				if err != nil {
					t.Fatalf("it does not verify: %v\n%s", err, r.Body)
				}
				if len(verified.Items) != 1 {
					t.Fatalf("it has %d events", len(verified.Items))
				}
				if got := verified.Items[0].Type; got != fixture.Type {
					t.Errorf("its type is %q, and the list says %q", got, fixture.Type)
				}
				return verified.Items[0]
			}
			first, second, again := item("id-1"), item("id-2"), item("id-1")
			if first.EventID == second.EventID {
				t.Errorf("both have the event id %q", first.EventID)
			}
			if first.EventID != again.EventID {
				t.Errorf("the same event has the ids %q and %q", first.EventID, again.EventID)
			}
			if known := p.Spec().Types.Known; len(known) > 0 && !slices.Contains(known, first.Type) {
				t.Errorf("the sender has no type %q", first.Type)
			}
		})
	}
}
