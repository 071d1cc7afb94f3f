package receiver_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/inbox/refusal"
	"github.com/oncegate/oncegate/providers"
)

var (
	now      = time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)
	key      = []byte("a secret of twenty-four b")
	recorded = inbox.ID{0x01, 0x95, 0x51, 0xb9, 0, 0, 0x70, 1, 0x80, 1, 2, 3, 4, 5, 6, 7}
)

const (
	maxBody    = 64 << 10
	recordedID = "019551b9-0000-7001-8001-020304050607"
)

// gate is a gate whose answer the test chooses.
type fakeGate struct {
	answer func(ctx context.Context, a *inbox.Admission) (inbox.Receipt, error)

	mu   sync.Mutex
	seen []inbox.Admission
}

func (g *fakeGate) Accept(ctx context.Context, a *inbox.Admission) (inbox.Receipt, error) {
	kept := *a
	kept.Body = bytes.Clone(a.Body)
	g.mu.Lock()
	g.seen = append(g.seen, kept)
	g.mu.Unlock()
	if g.answer != nil {
		return g.answer(ctx, a)
	}
	return receipt(a, inbox.Recorded), nil
}

func (g *fakeGate) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen = nil
}

func (g *fakeGate) admissions() []inbox.Admission {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]inbox.Admission(nil), g.seen...)
}

// receipt answers every event of a with the outcomes in turn.
func receipt(a *inbox.Admission, outcomes ...inbox.Outcome) inbox.Receipt {
	out := inbox.Receipt{}
	for i := range a.Events {
		item := inbox.ItemReceipt{ID: recorded, Outcome: outcomes[i%len(outcomes)], Unusable: a.Events[i].Unusable != "", Intent: []byte{0xc0, 0xff, 0xee}}
		if item.Outcome == inbox.Conflict {
			item.Paths = []string{"amount", "to.name"}
		}
		out.Items = append(out.Items, item)
	}
	return out
}

func answering(outcomes ...inbox.Outcome) *fakeGate {
	return &fakeGate{answer: func(_ context.Context, a *inbox.Admission) (inbox.Receipt, error) {
		return receipt(a, outcomes...), nil
	}}
}

// answeringFor is a gate that records what it is given and answers for more events than
// that, or for fewer.
func answeringFor(more int) *fakeGate {
	return &fakeGate{answer: func(_ context.Context, a *inbox.Admission) (inbox.Receipt, error) {
		out := receipt(a, inbox.Recorded)
		if more < 0 {
			out.Items = out.Items[:len(out.Items)+more]
		}
		for range more {
			out.Items = append(out.Items, out.Items[0])
		}
		return out, nil
	}}
}

func failing(err error) *fakeGate {
	return &fakeGate{answer: func(context.Context, *inbox.Admission) (inbox.Receipt, error) { return inbox.Receipt{}, err }}
}

// provider signs the body with HMAC-SHA256 in X-Signature (hex), optionally
// stales at X-Age, and reads the id from the body's "id". It is written without
// package providers, so that these tests fix what the receiver does alone.
type provider struct {
	limits    providers.Limits
	operation bool
}

func newProvider() *provider {
	return &provider{limits: providers.Limits{
		Methods: []string{"GET", "POST"}, Deliveries: []string{"POST"}, MaxBody: maxBody, ContentTypes: []string{"application/json"},
	}}
}

// unproved is a provider that proves nothing.
type unproved struct{ *provider }

func (unproved) Unproved() bool { return true }

func (p *provider) Limits() providers.Limits { return p.limits }
func (p *provider) IsOperation() bool        { return p.operation }

func (p *provider) Handshake(req *providers.Request, _ []providers.Secret) (providers.Reply, bool, error) {
	if req.Method != http.MethodGet || !strings.Contains(req.URL, "challenge=") {
		return providers.Reply{}, false, nil
	}
	if strings.Contains(req.URL, "token=wrong") {
		return providers.Reply{}, true, &providers.Refusal{Reason: providers.ReasonMismatch}
	}
	_, challenge, _ := strings.Cut(req.URL, "challenge=")
	return providers.Reply{Status: 200, ContentType: "text/plain", Body: []byte(challenge)}, true, nil
}

func (p *provider) Verify(req *providers.Request, secrets []providers.Secret) (*providers.Delivery, error) {
	switch req.Header.Get("X-Provoke") {
	case "panic":
		panic("the secret content of a delivery")
	case "error":
		return nil, errors.New("a provider's own trouble")
	case "unknown key":
		return nil, &providers.Deferral{After: 41*time.Second + 1, Err: errors.New("no budget")}
	case "unknown key and time":
		return nil, fmt.Errorf("verifying: %w", &providers.Deferral{Err: errors.New("no budget")})
	case "nothing":
		return nil, nil
	case "unidentified":
		return nil, &providers.Refusal{Reason: providers.ReasonUnidentified}
	}
	given := req.Header["X-Signature"]
	if len(given) == 0 {
		return nil, &providers.Refusal{Reason: providers.ReasonUnsigned, Detail: "header X-Signature is missing"}
	}
	signature, err := hex.DecodeString(given[0])
	if err != nil || len(given) != 1 {
		return nil, &providers.Refusal{Reason: providers.ReasonMalformed, Detail: "header X-Signature is not one hex value"}
	}
	matched := ""
	for _, secret := range secrets {
		mac := hmac.New(sha256.New, secret.Value)
		mac.Write(req.Body)
		if hmac.Equal(mac.Sum(nil), signature) {
			matched = secret.Name
		}
	}
	if matched == "" {
		return nil, &providers.Refusal{Reason: providers.ReasonMismatch, Detail: "no secret matches"}
	}
	if age, err := strconv.Atoi(req.Header.Get("X-Age")); err == nil {
		if age > 300 {
			return nil, &providers.Refusal{Reason: providers.ReasonStale}
		} else if age < -300 {
			return nil, &providers.Refusal{Reason: providers.ReasonEarly}
		}
	}
	return &providers.Delivery{Items: items(req.Body), Secret: matched, IDUnsigned: true}, nil
}

func items(body []byte) []providers.Item {
	var many []json.RawMessage
	if json.Unmarshal(body, &many) == nil {
		out := []providers.Item{}
		for _, one := range many {
			at := bytes.Index(body, one)
			item := items(one)[0]
			item.Offset, item.Length = at, len(one)
			out = append(out, item)
		}
		return out
	}
	var document struct{ ID string }
	item := providers.Item{Type: "test", Length: len(body), OccurredAt: now, SequenceKey: "k", SequenceNumber: "7"}
	if err := json.Unmarshal(body, &document); err != nil {
		item.Unusable = "not JSON"
	} else if document.ID == "" {
		item.Unusable = "no id"
	}
	item.EventID = document.ID
	return []providers.Item{item}
}

func (p *provider) Answer(kind providers.AnswerKind, event, status string) providers.Reply {
	if kind == providers.Refused {
		return providers.Reply{Status: http.StatusUnauthorized}
	}
	body, _ := json.Marshal(map[string]string{"event": event, "status": status})
	return providers.Reply{Status: http.StatusOK, ContentType: "application/json", Body: body}
}

// keeper remembers refusals.
type keeper struct {
	mu   sync.Mutex
	kept []refusal.Refusal
}

func (k *keeper) Add(r refusal.Refusal) bool {
	r.Body, r.Headers = bytes.Clone(r.Body), bytes.Clone(r.Headers)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.kept = append(k.kept, r)
	return true
}

func (k *keeper) refusals() []refusal.Refusal {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]refusal.Refusal(nil), k.kept...)
}

// config serves one source, "shop", of the provider through g.
func config(g receiver.Accepter, p receiver.Provider) receiver.Config {
	return receiver.Config{
		Gate: g,
		Sources: map[string]*receiver.Source{"shop": {
			Inbox:    &inbox.Source{ID: 7, Name: "shop", Class: "default"},
			Provider: p,
			Secrets: func() []providers.Secret {
				return []providers.Secret{{Name: "new", Value: []byte("another secret of 24 byte")}, {Name: "old", Value: key}}
			},
		}},
		Logger: slog.New(slog.DiscardHandler),
		Now:    func() time.Time { return now },
	}
}

func newReceiver(tb testing.TB, cfg receiver.Config) http.Handler {
	tb.Helper()
	r, err := receiver.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return r.Handler()
}

func sign(body string) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(body))
	return hex.EncodeToString(mac.Sum(nil))
}
