package receiver_test

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/providers"
)

// memory is a gate and its outcomes: it knows every key that it has recorded.
type memory struct {
	*fakeGate
	outcomes
	mu sync.Mutex
}

func newMemory() *memory {
	m := &memory{outcomes: outcomes{settled: true, keys: map[string]inbox.ID{}}}
	m.fakeGate = &fakeGate{answer: func(_ context.Context, a *inbox.Admission) (inbox.Receipt, error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		id := a.Events[0].EventID
		if _, ok := m.keys[id]; ok {
			return receipt(a, inbox.Duplicate), nil
		}
		m.keys[id] = recorded
		return receipt(a, inbox.Recorded), nil
	}}
	return m
}

func (m *memory) Find(_ context.Context, _ int32, _, ref string) (inbox.ID, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if id, ok := m.keys[ref]; ok {
		return id, nil
	}
	return inbox.ID{}, inbox.ErrNotFound
}

// A caller may call the operations of its credential and no other, and a refused call takes no
// key, neither at the gate nor from the quota.
func TestCredentialOperations(t *testing.T) {
	t.Parallel()
	m := newMemory()
	h := operations(t, m, m, func(s *receiver.Source) {
		s.Credentials = map[string]receiver.Credential{
			"agent": {Operations: []string{"charge"}, NewKeys: receiver.Quota{N: 1, Per: time.Hour}},
		}
	})
	for range 3 {
		w := operate(t, h, "Oncegate-Operation", "refund")
		var problem struct{ Code string }
		if err := json.Unmarshal(w.Body.Bytes(), &problem); err != nil || w.Code != http.StatusForbidden || problem.Code != "operation_not_allowed" {
			t.Fatalf("%d %s, want 403 with the code operation_not_allowed", w.Code, w.Body)
		}
	}
	if n := len(m.admissions()); n != 0 {
		t.Fatalf("%d calls reached the gate, want none", n)
	}
	if w := operate(t, h); w.Code != http.StatusAccepted {
		t.Errorf("the operation that the credential may call: %d %s", w.Code, w.Body)
	}
	// A credential that nothing is said about may call everything.
	if w := operate(t, h, "Authorization", "Bearer two", "Oncegate-Operation", "refund"); w.Code != http.StatusAccepted {
		t.Errorf("a credential without a list of operations: %d %s", w.Code, w.Body)
	}
}

// The quotas of a credential, of its tenant and of the source hold together: what one refuses
// takes nothing from the others.
func TestCredentialQuotas(t *testing.T) {
	t.Parallel()
	m := newMemory()
	cfg := operationsConfig(t, m, m, func(s *receiver.Source) {
		s.NewKeys = 5
		s.Credentials = map[string]receiver.Credential{
			"agent": {Tenant: "acme", NewKeys: receiver.Quota{N: 2, Per: time.Minute}},
			"clerk": {Tenant: "acme"},
		}
	})
	cfg.TenantKeys = map[string]receiver.Quota{"acme": {N: 3, Per: time.Hour}}
	h := newReceiver(t, cfg)
	for i, c := range []struct {
		secret, key string
		want        int
		after       string
	}{
		{"one", "a", 202, ""},
		{"one", "a", 200, ""}, // a repeated call counts nowhere
		{"one", "b", 202, ""},
		{"one", "c", 429, "30"}, // two a minute for the credential
		{"one", "c", 429, "30"},
		{"two", "d", 202, ""},     // the third of the tenant: the refused ones took none
		{"two", "e", 429, "1200"}, // three an hour for the tenant
		{"two", "d", 200, ""},
		{"one", "b", 200, ""},
	} {
		w := operate(t, h, "Authorization", "Bearer "+c.secret, "Idempotency-Key", c.key)
		if c.want == http.StatusTooManyRequests {
			owner := map[string]string{"one": "credential agent", "two": "tenant acme"}[c.secret]
			var problem struct {
				Code, Detail string
				Status       int
			}
			if err := json.Unmarshal(w.Body.Bytes(), &problem); err != nil || w.Header().Get("Content-Type") != "application/problem+json" ||
				problem.Code != "quota" || problem.Status != c.want || !strings.Contains(problem.Detail, owner) {
				t.Errorf("call %d: %s %s, want a problem document about %s", i, w.Header().Get("Content-Type"), w.Body, owner)
			}
		}
		if w.Code != c.want || w.Header().Get("Retry-After") != c.after {
			t.Errorf("call %d, %s: %d with Retry-After %q, want %d with %q", i, c.key, w.Code, w.Header().Get("Retry-After"), c.want, c.after)
		}
	}
}

// A receiver that takes the place of another one continues its quotas, and does not keep it alive.
func TestAReceiverContinuesTheQuotasOfTheOneBefore(t *testing.T) {
	t.Parallel()
	g := &fakeGate{}
	cfg := config(g, newProvider())
	cfg.Sources["shop"].Deliveries = receiver.Quota{N: 2, Per: time.Hour}
	made := func() *receiver.Receiver {
		r, err := receiver.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	send := func(r *receiver.Receiver) int {
		answer := httptest.NewRecorder()
		r.Handler().ServeHTTP(answer, newRequest(t, &answerCase{body: event}))
		g.forget()
		return answer.Code
	}
	var statuses []int
	replaced := func() (after *receiver.Receiver, gone weak.Pointer[receiver.Receiver]) {
		before := made()
		statuses = append(statuses, send(before))
		cfg.After = before
		after = made()
		cfg.After = nil
		return after, weak.Make(before)
	}
	after, gone := replaced()
	statuses = append(statuses, send(after), send(after))
	if want := []int{http.StatusOK, http.StatusOK, http.StatusTooManyRequests}; !slices.Equal(statuses, want) {
		t.Errorf("answered %v, want %v", statuses, want)
	}
	for range 10 {
		runtime.GC()
	}
	if gone.Value() != nil {
		t.Error("the receiver before is still reachable")
	}
	runtime.KeepAlive(after)
}

// A tenant's quota is one for all sources.
func TestTenantQuotaOfSeveralSources(t *testing.T) {
	t.Parallel()
	m := newMemory()
	cfg := operationsConfig(t, m, m, func(s *receiver.Source) { s.Inbox.Tenant = "acme" })
	other := *cfg.Sources["agents"]
	other.Inbox = &inbox.Source{ID: 10, Name: "clerks", Class: "default", Strict: true, Tenant: "acme"}
	cfg.Sources["clerks"] = &other
	cfg.TenantKeys = map[string]receiver.Quota{"acme": {N: 2, Per: time.Minute}}
	h := newReceiver(t, cfg)
	for i, c := range []struct {
		source, key string
		want        int
	}{{"agents", "a", 202}, {"clerks", "b", 202}, {"agents", "c", 429}, {"clerks", "d", 429}, {"clerks", "b", 200}} {
		if w := operateAt(t, h, c.source, "Idempotency-Key", c.key); w.Code != c.want {
			t.Errorf("call %d at %s: %d, want %d", i, c.source, w.Code, c.want)
		}
	}
}

// A secret is replaced while the same call is repeated: every call has one key, whichever secret
// it came with, and the one that has ended is refused.
func TestRotationKeepsTheKey(t *testing.T) {
	t.Parallel()
	m := newMemory()
	previous := providers.Secret{Name: "env:OLD", Credential: "agent", Value: []byte("one")}
	next := providers.Secret{Name: "env:NEW", Credential: "agent", Value: []byte("three")}
	var mu sync.Mutex
	held := []providers.Secret{previous}
	h := operations(t, m, m, func(s *receiver.Source) {
		s.Secrets = func() []providers.Secret { mu.Lock(); defer mu.Unlock(); return held }
	})
	hold := func(secrets ...providers.Secret) { mu.Lock(); defer mu.Unlock(); held = secrets }

	var calls sync.WaitGroup
	first := make(chan struct{})
	for i := range 8 {
		calls.Go(func() {
			for n := range 50 {
				if n == 10 && i == 0 {
					close(first)
				}
				if w := operate(t, h); w.Code != http.StatusAccepted && w.Code != http.StatusOK {
					t.Errorf("a call with a secret that holds: %d %s", w.Code, w.Body)
					return
				}
			}
		})
	}
	<-first
	hold(next, previous)
	if w := operate(t, h, "Authorization", "Bearer three"); w.Code != http.StatusOK {
		t.Errorf("the same call with the new secret: %d %s, want the stored result", w.Code, w.Body)
	}
	calls.Wait()
	hold(next)
	if w := operate(t, h); w.Code != http.StatusUnauthorized {
		t.Errorf("a call with the secret that has ended: %d, want 401", w.Code)
	}
	if w := operate(t, h, "Authorization", "Bearer three"); w.Code != http.StatusOK {
		t.Errorf("the same call after the rotation: %d %s, want the stored result", w.Code, w.Body)
	}
	keys := map[string]bool{}
	for _, a := range m.admissions() {
		keys[a.Events[0].EventID] = true
	}
	if len(keys) != 1 || !keys["agent:charge:k1"] {
		t.Errorf("the calls made the keys %v, want agent:charge:k1 alone", keys)
	}
}

func TestCallersAreChecked(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*receiver.Config){
		"a quota without a time": func(c *receiver.Config) {
			c.Sources["agents"].Credentials = map[string]receiver.Credential{"agent": {NewKeys: receiver.Quota{N: 1}}}
		},
		"a negative quota of a tenant": func(c *receiver.Config) {
			c.TenantKeys = map[string]receiver.Quota{"acme": {N: -1, Per: time.Minute}}
		},
		"credentials of a provider": func(c *receiver.Config) {
			c.Sources["agents"].Provider = newProvider()
			c.Sources["agents"].Credentials = map[string]receiver.Credential{"agent": {}}
		},
		"a quota without outcomes": func(c *receiver.Config) {
			c.Outcomes, c.TenantKeys = nil, map[string]receiver.Quota{"acme": {N: 1, Per: time.Minute}}
			c.Sources["agents"].Inbox.Tenant = "acme"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMemory()
			cfg := operationsConfig(t, m, m, nil)
			change(&cfg)
			if _, err := receiver.New(cfg); err == nil {
				t.Error("accepted")
			}
		})
	}
}

// Every request is counted for the tenant of its credential or else of its source, and the
// counters that have an alert are there before the first request.
func TestTenantsAreCounted(t *testing.T) {
	t.Parallel()
	m, registry := newMemory(), prometheus.NewRegistry()
	metrics, err := receiver.NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	cfg := operationsConfig(t, m, m, func(s *receiver.Source) {
		s.Inbox.Tenant = "home"
		s.Credentials = map[string]receiver.Credential{"agent": {Tenant: "acme"}, "clerk": {}}
	})
	cfg.Metrics = metrics
	h := newReceiver(t, cfg)
	counts := func() map[string]float64 {
		t.Helper()
		out := map[string]float64{}
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			if family.GetName() != "oncegate_deliveries_total" {
				continue
			}
			for _, metric := range family.GetMetric() {
				labels := map[string]string{}
				for _, label := range metric.GetLabel() {
					labels[label.GetName()] = label.GetValue()
				}
				switch labels["outcome"] {
				case "recorded", "duplicate", "refused", "status":
					out[labels["tenant"]+" "+labels["outcome"]] = metric.GetCounter().GetValue()
				}
			}
		}
		return out
	}
	want := map[string]float64{
		"acme duplicate": 0, "home duplicate": 0,
	}
	if got := counts(); !maps.Equal(got, want) {
		t.Errorf("before the first request: %v, want %v", got, want)
	}
	operate(t, h)
	operate(t, h)
	operate(t, h, "Authorization", "Bearer two", "Idempotency-Key", "k2")
	operate(t, h, "Authorization", "Bearer nobody")
	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/in/agents/"+recordedID, nil)
	req.Header.Set("Authorization", "Bearer one")
	m.keys[recordedID] = recorded
	h.ServeHTTP(httptest.NewRecorder(), req)
	want["acme recorded"], want["acme duplicate"], want["acme status"], want["home recorded"], want["home refused"] = 1, 1, 1, 1, 1
	if got := counts(); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	for _, a := range m.admissions() {
		tenant := map[string]string{"agent:charge:k1": "acme", "clerk:charge:k2": "home"}[a.Events[0].EventID]
		if a.Tenant != tenant {
			t.Errorf("%s is admitted for %q, want %q", a.Events[0].EventID, a.Tenant, tenant)
		}
	}
}
