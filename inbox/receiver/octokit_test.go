package receiver_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
	"github.com/oncegate/oncegate/providers/providertest"
	"github.com/oncegate/oncegate/providers/testdata"
)

// TestOctokitExamplesAreRecordedOnce sends every payload that GitHub's own
// library publishes, signed as GitHub would, twice and at once, through the
// receiver and the gate: each is accepted, recorded once, byte for byte, with
// the type that GitHub's event name and action give.
func TestOctokitExamplesAreRecordedOnce(t *testing.T) {
	t.Parallel()
	const secret = "It's a Secret to Everybody"
	url, schema := inboxtest.Schema(t)
	pool := inboxtest.Open(t, url, schema, session.PoolAdmin, 4)
	all := catalogtest.Load(t)
	gate, err := gate.New(gate.Config{
		Pool: inboxtest.Open(t, url, schema, session.PoolGate, 4), Enqueuer: jobs.NewQueue(jobs.QueueConfig{}), Clock: inboxtest.Clock(t, pool),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := gate.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = gate.Stop(t.Context()) })
	cfg := config(nil, all["github"])
	cfg.Gate, cfg.Now = gate, time.Now
	cfg.Sources = map[string]*receiver.Source{"github": {
		Inbox: inboxtest.Source(t, pool, "github"), Provider: all["github"],
		Secrets: func() []providers.Secret { return []providers.Secret{{Name: "hook", Value: []byte(secret)}} },
	}}
	handler := newReceiver(t, cfg)

	type sent struct{ kind, sha string }
	want := map[string]sent{}
	var wg sync.WaitGroup
	slots := make(chan struct{}, 16)
	for example, err := range providertest.Octokit(testdata.Files) {
		if err != nil {
			t.Fatal(err)
		}
		kind, err := example.Type()
		if err != nil {
			t.Fatal(err)
		}
		id := fmt.Sprintf("72d3162e-cc78-11e3-81ab-%012d", len(want)+1)
		sum := sha256.Sum256(example.Body)
		want[id] = sent{kind, hex.EncodeToString(sum[:])}
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write(example.Body)
		signature := "sha256=" + hex.EncodeToString(mac.Sum(nil))
		for range 2 {
			slots <- struct{}{}
			wg.Go(func() {
				defer func() { <-slots }()
				req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/in/github", bytes.NewReader(example.Body))
				req.Header.Set("Content-Type", "application/json")
				req.Header.Set("X-GitHub-Event", example.Event)
				req.Header.Set("X-GitHub-Delivery", id)
				req.Header.Set("X-Hub-Signature-256", signature)
				answer := httptest.NewRecorder()
				handler.ServeHTTP(answer, req)
				if answer.Code != http.StatusOK {
					t.Errorf("%s (%s): %d %s", id, kind, answer.Code, answer.Body)
				}
			})
		}
	}
	wg.Wait()
	if len(want) < 300 {
		t.Fatalf("only %d examples", len(want))
	}
	rows, err := pool.Query(t.Context(), `SELECT e.event_id, e.type, encode(sha256(b.body), 'hex'), e.deliveries, e.admission
		FROM inbox_event e JOIN inbox_body b ON b.id = e.body_id`)
	if err != nil {
		t.Fatal(err)
	}
	recorded := 0
	for rows.Next() {
		var id, admission string
		var got sent
		var deliveries int
		if err := rows.Scan(&id, &got.kind, &got.sha, &deliveries, &admission); err != nil {
			t.Fatal(err)
		}
		recorded++
		if got != want[id] || admission != "ok" {
			t.Errorf("%s is recorded as %+v, %s, want %+v", id, got, admission, want[id])
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if recorded != len(want) {
		t.Errorf("%d events are recorded, want %d", recorded, len(want))
	}
}
