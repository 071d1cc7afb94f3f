package app_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/jobs/effect/effecttest"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
)

const messageFile = `
targets:
  letters:
    kind: mail
    smtp: env:SMTP
    from: Shop <shop@example.com>
    starttls: off
    dkim: { domain: example.com, selector: mail2026, key: env:DKIM }
sources:
  agents:
    provider: operation
    secrets: [{ env: AGENT, name: agent }]
    routes:
      - name: letter
        types: [announce]
        target: letters
        mail:
          to: body.to
          subject: News
          text: "{{.Body.text}}"
          reply_to: support@example.com
          list_unsubscribe: ["https://shop.example/u?to={{.To | urlquery}}"]
          one_click: true
          attachments: body.?files.orValue([])
`

// The whole way of a message with everything that it can have, to a server that takes it and never says so: the effect is
// indeterminate, and whoever resolves it as done has the Message-ID for its result.
func TestResolvedMessageKeepsItsID(t *testing.T) {
	t.Parallel()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	mails := effecttest.NewMailServer(t, effecttest.MailScript{"dot": "drop"}, nil, false)
	url, schema := inboxtest.Schema(t)
	cat := catalogtest.Load(t)
	cfg, err := config.Load(config.Options{Catalog: cat, File: "oncegate.yml", Content: []byte(messageFile), Environ: []string{
		"DATABASE_URL=" + url, "ONCEGATE_SCHEMA=" + schema, "ONCEGATE_PUBLIC=127.0.0.1:0", "ONCEGATE_ADMIN=127.0.0.1:0",
		"AGENT=agent_secret", "SMTP=smtp://" + mails.Address, "DKIM=" + string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	}})
	if err != nil {
		t.Fatal(err)
	}
	pool := inboxtest.Open(t, url, schema, session.PoolAdmin, 2)
	o := &operated{a: newApp(t, cfg), schema: schema, pool: pool}
	if err := o.a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := o.a.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	if got := o.do(t, "POST", "agents", `{"to":"ann@example.com","text":"hello","files":[{"name":"a.txt","type":"text/plain","content":"aGVsbG8="}]}`,
		"Oncegate-Operation", "announce", "Idempotency-Key", "key-of-a-whole-message", "Prefer", "wait=40"); got.status == http.StatusInternalServerError {
		t.Fatalf("%d %s", got.status, got.body)
	}
	inboxtest.Until(t, "the outcome is unknown", func() bool { return rowsOf(t, pool, `SELECT count(*) FROM effect WHERE state = 'indeterminate'`) == 1 })
	sent := mails.Sent()
	if len(sent) != 1 {
		t.Fatalf("%d messages were sent", len(sent))
	}
	for _, part := range []string{
		"DKIM-Signature: ", "d=example.com", "Reply-To: <support@example.com>", "List-Unsubscribe: <https://shop.example/u?to=ann%40example.com>",
		"List-Unsubscribe-Post: List-Unsubscribe=One-Click", `filename="a.txt"`, "aGVsbG8=",
	} {
		if !strings.Contains(strings.ReplaceAll(sent[0], "\r\n ", " "), part) {
			t.Errorf("no %q in %s", part, sent[0])
		}
	}
	store, err := app.NewStore(pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	var id inbox.ID
	if err := pool.QueryRow(t.Context(), `SELECT id FROM effect`).Scan(&id); err != nil {
		t.Fatal(err)
	}
	if err := decide.New(store).Resolve(t.Context(), decide.Resolve{Effect: id, As: decide.ResolveDone, Actor: "ann", Reason: "the recipient has it"}); err != nil {
		t.Fatal(err)
	}
	var result []byte
	if err := pool.QueryRow(t.Context(), `SELECT result FROM effect WHERE state = 'done'`).Scan(&result); err != nil {
		t.Fatal(err)
	}
	if found := regexp.MustCompile(`Message-ID: (\S+)`).FindStringSubmatch(sent[0]); found == nil || found[1] != string(result) {
		t.Errorf("the result is %q, and the message had %v", result, found)
	}
	// What cannot be attached is a dead letter that says what is wrong with which file.
	o.do(t, "POST", "agents", `{"to":"ann@example.com","text":"hello","files":[{"name":"a.txt","type":"text/plain","content":"canary!"}]}`,
		"Oncegate-Operation", "announce", "Idempotency-Key", "key-of-a-bad-attachment", "Prefer", "wait=40")
	inboxtest.Until(t, "the bad one is dead", func() bool {
		return rowsOf(t, pool, `SELECT count(*) FROM effect_attempt WHERE outcome = 'dead' AND excerpt LIKE '%attachments: number 1: content is not base64' AND excerpt NOT LIKE '%canary%'`) == 1
	})
}
