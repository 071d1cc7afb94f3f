package providertest_test

import (
	"testing"

	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
	"github.com/oncegate/oncegate/providers/providertest"
	"github.com/oncegate/oncegate/providers/testdata"
)

// waivers are known differences between a vector and us: provider/case/check to
// the reason. One that is no longer needed fails the test.
var waivers = map[string]string{
	"paymongo/test/shortened": "what is cut off is of the empty signature of live mode, which stands last",
}

// onlyValid are the providers without an invalid vector, and why.
var onlyValid = map[string]string{
	"svix":           "its vectors beside standard-webhooks' are all valid",
	"mollie-classic": "nothing is proved",
	"message":        "the connection to the broker is what proves the sender",
}

func TestCatalogue(t *testing.T) { //nolint:tparallel // the outer subtest returns when its parallel ones have ended
	t.Parallel()
	loaded := catalogtest.Load(t)
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
				// A changed body is no hostile variant where the signature proves the origin alone.
				if verify := &provider.Spec().Verify; verify.Family == "hmac" && verify.Authenticates != "origin" && hostile < 1000 {
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

// TestHandshakes checks the answers to the vectors of kind handshake, and the acknowledgements and
// refusals of deliveries whose vectors contain an answer.
func TestHandshakes(t *testing.T) {
	t.Parallel()
	loaded := catalogtest.Load(t)
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
