package providertest_test

import (
	"errors"
	"testing"

	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
	"github.com/oncegate/oncegate/providers/providertest"
	"github.com/oncegate/oncegate/providers/testdata"
)

// TestVerdicts checks the verdict of every vector and the answer to every handshake, and that every
// case has a unique name.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	loaded := catalogtest.Load(t)
	for name, provider := range loaded {
		vectors, err := providertest.Vectors(testdata.Files, name)
		if err != nil {
			continue // TestCatalogue says which providers have none
		}
		for i := range vectors {
			v := &vectors[i]
			subject := provider
			if v.Spec != "" {
				if subject, err = catalog.Parse("custom", []byte(v.Spec)); err != nil {
					t.Fatalf("%s/%s: %v", name, v.Case, err)
				}
			}
			t.Run(name+"/"+v.Case, func(t *testing.T) {
				t.Parallel()
				bound, err := v.Bind(subject)
				if err != nil {
					t.Fatal(err)
				}
				if v.Kind == "handshake" {
					shaken(t, bound, v)
					return
				}
				reply, ok, err := bound.Handshake(v.Request(), v.Secrets())
				if ok && err == nil && v.ExpectResponse == nil {
					t.Fatalf("is answered as a handshake: %+v", reply)
				}
				if ok && err == nil {
					return // TestHandshakes compares the answer
				}
				d, err := bound.Verify(v.Request(), v.Secrets())
				if (err == nil) != v.Valid {
					t.Fatalf("valid: %v, but %v", v.Valid, err)
				}
				if err == nil && v.ExpectResponse != nil && v.ExpectResponse.Status != bound.Answer(providers.Accepted, "u", "recorded").Status {
					t.Errorf("is acknowledged otherwise than expected; %d items", len(d.Items))
				}
			})
		}
	}
}

func shaken(t *testing.T, p *providers.Provider, v *providertest.Vector) {
	t.Helper()
	reply, ok, err := p.Handshake(v.Request(), v.Secrets())
	if !v.Valid {
		if !ok || err == nil {
			t.Fatalf("is answered: %+v", reply)
		}
		var refusal *providers.Refusal
		if v.ExpectResponse != nil && v.ExpectResponse.Status != p.Answer(providers.Refused, "", "").Status &&
			(!errors.As(err, &refusal) || refusal.Reply == nil || refusal.Reply.Status != v.ExpectResponse.Status) {
			t.Errorf("is refused otherwise than with %d: %v", v.ExpectResponse.Status, err)
		}
		return
	}
	if err != nil || !ok {
		t.Fatalf("is not answered: %v", err)
	}
	if differs := v.ExpectResponse.Differs(&reply); differs != "" {
		t.Error(differs)
	}
}
