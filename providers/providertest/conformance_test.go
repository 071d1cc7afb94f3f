package providertest_test

import (
	"strings"
	"testing"

	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog"
	"github.com/oncegate/oncegate/providers/providertest"
	"github.com/oncegate/oncegate/providers/testdata"
)

// waivers are known differences between a vector and us: provider/case/check to
// the reason. One that is no longer needed fails the test.
var waivers = map[string]string{
	"stripe/future-timestamp-accepted-by-sdk/vector": "the libraries check only the past; we check both sides",
}

func TestCatalogue(t *testing.T) { //nolint:tparallel // the outer subtest returns when its parallel ones have ended
	t.Parallel()
	loaded, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	if len(loaded) == 0 {
		t.Fatal("the catalogue is empty")
	}
	used := make(chan string, 1000)
	t.Run("providers", func(t *testing.T) {
		for name, provider := range loaded {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				vectors, err := providertest.Vectors(testdata.Files, name)
				if err != nil {
					t.Fatal(err)
				}
				valid, invalid := 0, 0
				for i := range vectors {
					v := &vectors[i]
					if v.Valid {
						valid++
					} else {
						invalid++
					}
					if v.Source == "" {
						t.Errorf("%s has no source", v.Case)
					}
					subject := provider
					if v.Spec != "" {
						if subject, err = catalog.Parse("custom", []byte(v.Spec)); err != nil {
							t.Fatalf("%s: %v", v.Case, err)
						}
					}
					for _, f := range providertest.Check(subject, v) {
						key := name + "/" + f.Case + "/" + f.Check
						if waivers[key] != "" {
							used <- key
							continue
						}
						t.Error(f)
					}
				}
				if valid == 0 {
					t.Error("no valid vector")
				}
				if invalid == 0 && name != "svix" { // whose vectors beside standard-webhooks' are all valid
					t.Error("no invalid vector")
				}
			})
		}
	})
	close(used)
	needed := map[string]bool{}
	for key := range used {
		needed[key] = true
	}
	for key := range waivers {
		if !needed[key] {
			t.Errorf("waiver %s is no longer needed", key)
		}
	}
}

// Every example of the catalogue can be signed and is accepted with an id.
func TestExamples(t *testing.T) {
	t.Parallel()
	loaded, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range loaded {
		vectors, err := providertest.Vectors(testdata.Files, name)
		if err != nil {
			t.Fatal(err)
		}
		for i := range vectors {
			v := &vectors[i]
			if v.Spec != "" || !v.Valid || strings.HasPrefix(v.Secret, "whpk_") {
				continue
			}
			req, ok := p.ExampleRequest("evt_1", v.Request().ReceivedAt)
			if !ok {
				t.Fatalf("%s has no example", name)
			}
			if err := p.Sign(req, v.Secrets()[0], "evt_1"); err != nil {
				t.Fatal(err)
			}
			d, err := p.Verify(req, v.Secrets())
			if err != nil {
				t.Fatal(err)
			}
			if len(d.Items) != 1 || d.Items[0].Unusable != "" || !strings.Contains(d.Items[0].EventID, "evt_1") || d.Items[0].Type == "" {
				t.Errorf("%s: the example gives %+v", name, d.Items)
			}
			if canonical, ok := p.Canonical(req.Body); !ok || len(canonical) == 0 {
				t.Errorf("%s: the example has no canonical form", name)
			}
			break
		}
	}
}

// The vectors with an expected answer are handshakes.
func TestHandshakes(t *testing.T) {
	t.Parallel()
	loaded, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for name, p := range loaded {
		vectors, err := providertest.Vectors(testdata.Files, name)
		if err != nil {
			t.Fatal(err)
		}
		for i := range vectors {
			v := &vectors[i]
			if v.ExpectResponse == nil || !v.Valid {
				if _, ok, err := p.Handshake(v.Request(), v.Secrets()); ok || err != nil {
					t.Errorf("%s/%s is taken for a handshake: %v", name, v.Case, err)
				}
				continue
			}
			found++
			reply, ok, err := p.Handshake(v.Request(), v.Secrets())
			if err != nil || !ok {
				t.Errorf("%s/%s is not answered: %v", name, v.Case, err)
				continue
			}
			want := v.ExpectResponse
			if reply.Status != want.Status || reply.ContentType != want.ContentType || string(reply.Body) != want.Body {
				t.Errorf("%s/%s is answered %d %s %q", name, v.Case, reply.Status, reply.ContentType, reply.Body)
			}
			wrong := []providers.Secret{{Name: "wrong", Value: []byte("wrong")}}
			if _, ok, err := p.Handshake(v.Request(), wrong); !ok || err == nil {
				t.Errorf("%s/%s is answered without a valid signature", name, v.Case)
			}
		}
	}
	if found == 0 {
		t.Error("no handshake among the vectors")
	}
}
