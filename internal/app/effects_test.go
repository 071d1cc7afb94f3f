package app_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/jobs/effect/effecttest"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
)

const effectsFile = `
targets:
  letters: { kind: mail, smtp: env:SMTP, from: Shop <shop@example.com>, starttls: off, templates: mail }
  billing:
    kind: forward
    url: env:TARGET
    idempotent: false
    method: PUT
    sign: [env:NEW_SIGN, env:OLD_SIGN]
    key_header: X-Once
    headers: { X-Region: eu }
    pass_headers: [X-Tenant]
sources:
  agents:
    provider: operation
    secrets: [{ env: AGENT, name: agent }]
    routes:
      - { name: letter, types: [announce], target: letters, mail: { to: body.to, template: news } }
      - { name: bill, types: [charge], target: billing }
`

// What is configured about a kind is what its targets get: the message of a
// template for each recipient, the headers that were asked for.
func TestWhatTargetsGet(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"news.subject.txt": "News for {{.To}}\n", "news.txt": "{{.Body.text}}", "news.html": "<p>{{.Body.text}}</p>",
	} {
		if err := os.MkdirAll(filepath.Join(dir, "mail"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "mail", name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	target := effecttest.NewTarget(t, func(conn net.Conn, _ effecttest.Request) {
		effecttest.Reply(conn, "200 OK", http.Header{"Connection": {"close"}}, "")
	})
	mails := effecttest.NewMailServer(t, nil, nil, false)
	url, schema := inboxtest.Schema(t)
	cat := catalogtest.Load(t)
	cfg, err := config.Load(config.Options{Catalog: cat, File: filepath.Join(dir, "oncegate.yml"), Content: []byte(effectsFile), Environ: []string{
		"DATABASE_URL=" + url, "ONCEGATE_SCHEMA=" + schema, "ONCEGATE_PUBLIC=127.0.0.1:0", "ONCEGATE_ADMIN=127.0.0.1:0",
		"AGENT=agent_secret", "TARGET=" + target.URL, "SMTP=smtp://" + mails.Address, "NEW_SIGN=whsec_bmV3", "OLD_SIGN=old",
	}})
	if err != nil {
		t.Fatal(err)
	}
	o := &operated{a: newApp(t, cfg), schema: schema, pool: inboxtest.Open(t, url, schema, session.PoolAdmin, 2)}
	if err := o.a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := o.a.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})

	// The caller hears when every recipient has it, and not when the list is written.
	got := o.do(t, "POST", "agents", `{"to":["ann@example.com","bob@example.com","eve@example.com"],"text":"1 < 2"}`,
		"Oncegate-Operation", "announce", "Idempotency-Key", "k1", "Prefer", "wait=40")
	var document struct {
		Status  string
		Effects []struct{ State, Result string }
	}
	if got.status != http.StatusOK || json.Unmarshal([]byte(strings.ReplaceAll(got.body, `{"items":3}`, `"3"`)), &document) != nil ||
		document.Status != "done" || len(document.Effects) != 4 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	sent := mails.Got()
	if len(sent) != 3 {
		t.Fatalf("%d messages were sent", len(sent))
	}
	var to []string
	for _, m := range sent {
		name := strings.TrimSuffix(strings.TrimPrefix(m.To, "TO:<"), ">")
		to = append(to, name)
		if !strings.Contains(m.Data, "Subject: News for "+name) || !strings.Contains(m.Data, "<p>1 &lt; 2</p>") {
			t.Errorf("to %s: %s", name, m.Data)
		}
	}
	slices.Sort(to)
	if want := []string{"ann@example.com", "bob@example.com", "eve@example.com"}; !slices.Equal(to, want) {
		t.Errorf("sent to %v", to)
	}

	if got := o.do(t, "POST", "agents", `{"sum":7}`, "Idempotency-Key", "k2", "Prefer", "wait=40", "X-Tenant", "acme", "X-Secret", "no",
		"Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"); got.status != http.StatusOK {
		t.Fatalf("%d %s", got.status, got.body)
	}
	r := target.Requests()[0]
	if r.Method != http.MethodPut || r.Body != `{"sum":7}` || r.Header.Get("X-Region") != "eu" || r.Header.Get("X-Tenant") != "acme" ||
		r.Header.Get("X-Once") == "" || r.Header.Get("X-Secret") != "" || r.Header.Get("Authorization") != "" ||
		len(strings.Fields(r.Header.Get("Webhook-Signature"))) != 2 || !strings.Contains(r.Header.Get("Traceparent"), "0af7651916cd43dd8448eb211c80319c") {
		t.Errorf("%+v", r)
	}
}
