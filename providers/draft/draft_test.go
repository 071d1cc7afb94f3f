package draft_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
	"github.com/oncegate/oncegate/providers/draft"
	"github.com/oncegate/oncegate/providers/providertest"
	"github.com/oncegate/oncegate/providers/testdata"
)

// notDrafted are the providers of the catalogue whose valid vectors no provider is
// drafted from, with the reason.
var notDrafted = map[string]string{
	"braintree/valid":      "the public key's id is a setting, and stands in no vector's secret",
	"circle/test":          "the public key of ECDSA is written after its id, and no draft tries one there",
	"dropbox-sign/account": "the sender signs two members of the document and not the body",
	"dropbox-sign/base":    "the sender signs two members of the document and not the body",
	"segment/batch-second-event-forged-still-verifies": "the sender signs the first event alone, and the vector is about that",
	"stripe/future-timestamp-accepted-by-sdk":          "it was signed an hour after its receipt, which no draft takes",
}

// otherIDs are vectors of which the draft takes another member for the event's id
// than the catalogue, with the reason why nothing is lost.
var otherIDs = map[string]string{
	"azure-devops/build-complete": "id is the event's; the catalogue joins the subscription and the delivery",
	"okta/valid":                  "eventId is the delivery's, and the catalogue reads the event inside",
	"stytch/user-deleted":         "both are ids of the event",
}

// alike lists the providers for which the draft results in one id for different published payloads,
// with the reason.
var alike = map[string]string{
	"clickup": "the captured kind of event holds a time, and another kind, which the draft cannot know of, holds none",
	"webflow": "the draft joins the header of the time, which the published payloads are without",
}

// public are the families whose requests are proved by keys that the sender
// publishes, by a network or by nothing: there is no secret to draft with.
var public = []string{"adobe-io", "amazon-sns", "paypal", "paddle-classic", "event-grid", "microsoft-graph", "ip", "mtls", "none", "content-digest", "operation"}

// A provider is drafted from the vectors of every entry with a secret. The draft
// verifies the request, refuses it with another body, another time and another
// secret where these are what it says it is proved by, and reads as many ids as the
// check of identities takes.
func TestDraftsOfTheCatalogue(t *testing.T) {
	t.Parallel()
	all := catalogtest.Load(t)
	drafted, entries, looked, ids := 0, 0, 0, 0
	modes := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		p := all[name]
		if slices.Contains(public, p.Spec().Verify.Family) {
			continue
		}
		vectors, err := providertest.Vectors(testdata.Files, name)
		if err != nil {
			t.Fatal(err)
		}
		tried := 0
		for i := range vectors {
			v := &vectors[i]
			if tried == 2 {
				break
			}
			if !v.Valid || v.Kind == "handshake" || v.Spec != "" || len(v.Secrets()) != 1 || len(v.Keys) > 0 {
				continue
			}
			entries++
			tried++
			id := name + "/" + v.Case
			r, err := draft.Make(v.Request(), draft.Options{Secret: v.Secrets()[0].Value, SecretName: "SECRET", Catalog: all})
			if err == nil && len(r.Fits) == 0 {
				err = fmt.Errorf("nothing fits; tried %+v", r.Tried)
			}
			if err == nil {
				err = refuses(r, v)
			}
			if err != nil {
				if notDrafted[id] == "" {
					t.Errorf("%s: %v", id, err)
				}
				continue
			}
			if notDrafted[id] != "" {
				t.Errorf("%s is drafted: it is no exception", id)
			}
			drafted++
			apart(t, name, r)
			if slices.ContainsFunc(r.Looks, func(l draft.Look) bool { return l.Name == name }) {
				looked++
			}
			want, err := p.Verify(v.Request(), v.Secrets())
			if err != nil {
				continue // it needs settings of the source
			}
			got, _ := r.Provider.Verify(v.Request(), v.Secrets())
			if err == nil && got != nil && len(want.Items) == 1 && len(got.Items) == 1 && want.Items[0].EventID == got.Items[0].EventID {
				ids++
			} else if v.ProvedBy != "" && v.Origin == "computed" {
				// The payload is our own, so its members say nothing about the sender's ids.
			} else if got != nil && len(want.Items) == 1 && len(got.Items) == 1 && !strings.HasPrefix(got.Items[0].EventID, "sha256:") && r.Provider.Spec().Identity.Mode == "id" && otherIDs[id] == "" {
				t.Errorf("%s: the draft takes %s for the event's id, and the catalogue %s", id, got.Items[0].EventID, want.Items[0].EventID)
			}
			modes[r.Provider.Spec().Identity.Mode]++
			if strings.Contains(r.YAML+fmt.Sprint(r.Fits, r.Near, r.Guesses, r.Tried), string(v.Secrets()[0].Value)) && len(v.Secrets()[0].Value) > 6 {
				t.Errorf("%s: the draft holds the secret", id)
			}
		}
	}
	t.Logf("%d of %d vectors with a secret are drafted; %d look like their entry; %d have the id of the catalogue; identities %v", drafted, entries, looked, ids, modes)
}

// apart requires that the draft results in different ids for the sender's published payloads, which
// are different events.
func apart(t *testing.T, name string, r *draft.Result) {
	t.Helper()
	payloads, err := providertest.Payloads(testdata.Files, name)
	if err != nil {
		t.Fatal(err)
	}
	of := map[string]string{}
	for i := range payloads {
		p := &payloads[i]
		if p.RetryOf != "" {
			continue
		}
		req := p.Request()
		req.ReceivedAt = req.ReceivedAt.Add(time.Duration(i) * time.Second)
		for _, item := range r.Provider.Inspect(req).Items {
			if item.EventID == "" {
				continue
			}
			if other := of[item.EventID]; other != "" && other != p.Case && alike[name] == "" {
				t.Errorf("%s: the draft gives %s and %s one id: %v", name, other, p.Case, r.Guesses[0])
			}
			of[item.EventID] = p.Case
		}
	}
}

// refuses requires that a draft refuses requests that nobody without the secret can make.
func refuses(r *draft.Result, v *providertest.Vector) error {
	secrets := v.Secrets()
	verify := func(req *providers.Request, secrets []providers.Secret) error {
		_, err := r.Provider.Verify(req, secrets)
		return err
	}
	refused := func(err error) bool {
		_, ok := errors.AsType[*providers.Refusal](err)
		return ok
	}
	if err := verify(v.Request(), secrets); err != nil {
		return fmt.Errorf("the draft refuses its own request: %w", err)
	}
	other := slices.Clone(secrets)
	other[0].Value = append(slices.Clone(other[0].Value), "BBBB"...)
	if r.Provider.CheckSecrets(other) == nil && !refused(verify(v.Request(), other)) {
		return errors.New("the draft takes another secret")
	}
	fit := &r.Fits[0]
	if fit.Covers == "body" && len(v.Body) > 2 {
		req := v.Request()
		req.Body = slices.Clone(req.Body)
		req.Body[len(req.Body)/2] ^= 1
		if !refused(verify(req, secrets)) {
			return errors.New("the draft takes another body")
		}
	}
	spec := r.Provider.Spec().Verify.Timestamp
	if from := spec.From; fit.SignsTime && from == "header" {
		req := v.Request()
		name := spec.Header[0]
		stamp := []byte(req.Header.Get(name))
		last := len(stamp) - 1
		if strings.HasSuffix(string(stamp), "Z") {
			last--
		}
		stamp[last] = '0' + (stamp[last]-'0'+1)%10
		req.Header.Set(name, string(stamp))
		if !refused(verify(req, secrets)) {
			return errors.New("the draft takes another time")
		}
	}
	return nil
}
