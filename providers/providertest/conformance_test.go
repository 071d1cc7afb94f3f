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
var waivers = map[string]string{}

// onlyValid are the providers without an invalid vector, and why.
var onlyValid = map[string]string{
	"svix":           "its vectors beside standard-webhooks' are all valid",
	"mollie-classic": "nothing is proved",
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
				valid, invalid, hostile := 0, 0, 0
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
					if v.Kind == "handshake" {
						continue // TestHandshakes has them
					}
					if subject, err = v.Bind(subject); err != nil {
						t.Fatalf("%s: %v", v.Case, err)
					}
					failures, variants := providertest.Examine(subject, v)
					hostile += variants
					for _, f := range failures {
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
				if invalid == 0 && onlyValid[name] == "" {
					t.Error("no invalid vector")
				}
				if family := provider.Spec().Verify.Family; family == "hmac" && hostile < 1000 {
					t.Errorf("%d hostile variants", hostile)
				}
				t.Logf("%d vectors, %d hostile variants", len(vectors), hostile)
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

// Every example of the catalogue can be signed and is accepted with an id, where
// anybody but the provider can sign.
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
			if v.Spec != "" || !v.Valid || v.Kind == "handshake" || len(v.Keys) > 0 || strings.HasPrefix(v.Secret, "whpk_") || p.Spec().Verify.Family == "signature" || strings.Contains(v.Secret, "PUBLIC KEY") || v.Settings["ca"] != nil || v.Settings["cidrs"] != nil {
				continue
			}
			bound, err := v.Bind(p)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			example(t, bound, v)
			break
		}
	}
}

func example(t *testing.T, p *providers.Provider, v *providertest.Vector) {
	t.Helper()
	name := p.Name()
	req, ok := p.ExampleRequest("evt_1", v.Request().ReceivedAt)
	if !ok {
		t.Errorf("%s has no example", name)
		return
	}
	req.URL = v.URL
	var secret providers.Secret
	if secrets := v.Secrets(); len(secrets) > 0 {
		secret = secrets[0]
	}
	if err := p.Sign(req, secret, "evt_1"); err != nil {
		if providertest.OnlyTheirs(err) {
			return
		}
		t.Errorf("%s: %v", name, err)
		return
	}
	d, err := p.Verify(req, v.Secrets())
	if err != nil {
		t.Errorf("%s: the example: %v", name, err)
		return
	}
	if len(d.Items) != 1 || d.Items[0].Unusable != "" || d.Items[0].Type == "" {
		t.Errorf("%s: the example gives %+v", name, d.Items)
		return
	}
	identity := &p.Spec().Identity
	if identity.Mode == "id" && len(identity.Hash) == 0 && (len(identity.Candidates) == 0 || identity.Candidates[0].JSON == "" || strings.Contains(p.Spec().Example.Body, "{{id}}")) && !strings.Contains(d.Items[0].EventID, "evt_1") {
		t.Errorf("%s: the example gives id %s", name, d.Items[0].EventID)
	}
}

// The vectors of kind handshake are answered as they say; those of deliveries
// that name an answer are acknowledged or refused with it.
func TestHandshakes(t *testing.T) {
	t.Parallel()
	loaded, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	for name, unbound := range loaded {
		vectors, err := providertest.Vectors(testdata.Files, name)
		if err != nil {
			t.Fatal(err)
		}
		for i := range vectors {
			v := &vectors[i]
			if v.Spec != "" {
				continue
			}
			t.Run(name+"/"+v.Case, func(t *testing.T) {
				t.Parallel()
				handshake(t, unbound, v)
			})
		}
	}
}

func handshake(t *testing.T, p *providers.Provider, v *providertest.Vector) {
	t.Helper()
	if bound, err := v.Bind(p); err == nil {
		p = bound // a handshake may do without what deliveries need
	}
	reply, ok, err := p.Handshake(v.Request(), v.Secrets())
	if v.Kind != "handshake" && (v.ExpectResponse == nil || !ok) {
		if ok && err == nil {
			t.Fatal("is taken for a handshake")
		}
		if v.ExpectResponse != nil {
			kind := map[bool]providers.AnswerKind{true: providers.Accepted, false: providers.Refused}[v.Valid]
			answer := p.Answer(kind, "", "")
			if how := v.ExpectResponse.Differs(&answer); how != "" {
				t.Error(how)
			}
		}
		return
	}
	if !v.Valid {
		if err == nil {
			t.Error("is not refused")
		}
		return
	}
	if err != nil || !ok {
		t.Fatalf("is not answered: %v", err)
	}
	if how := v.ExpectResponse.Differs(&reply); how != "" {
		t.Error(how)
	}
	for i := range p.Spec().Handshakes {
		h := &p.Spec().Handshakes[i]
		if h.Verify != "signature" || h.Method != v.Method {
			continue
		}
		wrong := []providers.Secret{{Name: "wrong", Value: []byte("wrong")}}
		if _, ok, err := p.Handshake(v.Request(), wrong); !ok || err == nil {
			t.Error("is answered without a valid signature")
		}
	}
}
