package app_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/logtest"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
)

const sealedFile = `
targets:
  bank: { kind: forward, url: env:TARGET, idempotent: true, keep_reply: true, retry: { attempts: 2, base: 10ms, max: 20ms } }
sources:
  agents:
    provider: operation
    secrets: [{ env: AGENT, name: agent }]
    routes:
      - { name: plain, types: [charge], target: bank }
      - { name: mapped, types: [charge], target: bank, map: { note: body.note }, key: [body.note] }
      - { name: failing, types: [fail], target: bank }
      - { name: unmapped, types: [fail], target: bank, map: { note: body.nothing } }
  hooks:
    provider: standard-webhooks
    secrets: [env:HOOKS]
    routes: [{ name: plain, target: bank }]
`

// canary is in every body, in headers that are kept, and in what the target says.
const canary = "canary-7f3a-in-a-coal-mine"

// What deliveries bring is in no column, no log line and no metric once there is a
// keyring; and the same search finds it everywhere if there is none.
func TestNothingSealedIsInPlain(t *testing.T) {
	t.Parallel()
	for name, keyring := range map[string]string{"sealed": "1 AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8= active", "plain": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, schema := inboxtest.Schema(t)
			pool := inboxtest.Open(t, url, schema, session.PoolAdmin, 4)
			log, metrics := runWithCanary(t, url, schema, pool, keyring)
			for what, text := range map[string]string{"the log": log, "the metrics": metrics} {
				if strings.Contains(text, canary) {
					t.Errorf("%s has the content: %s", what, lineWith(text, canary))
				}
			}
			// With a keyring the hashes of what was sent, of the bytes and of what an operation compares, are nowhere: somebody who guesses
			// the content could compare them.
			for _, body := range []string{`{"note":"` + canary + `"}`, `{"note":"failing ` + canary + `"}`} {
				for _, sum := range [][32]byte{sha256.Sum256([]byte(body)), sha256.Sum256([]byte(inbox.MarkMeaning + body))} {
					for _, form := range []string{hex.EncodeToString(sum[:]), base64.RawStdEncoding.EncodeToString(sum[:])[:40]} {
						if keyring != "" && (strings.Contains(log, form) || strings.Contains(metrics, form)) {
							t.Errorf("the log or the metrics have the hash of %s as %s", body, form)
						}
						if where := tablesWith(t, pool, schema, form); keyring != "" && len(where) > 0 {
							t.Errorf("the hash of %s is in %v as %s", body, where, form)
						}
					}
				}
				sum := sha256.Sum256([]byte(body))
				if where := tablesWith(t, pool, schema, hex.EncodeToString(sum[:])); keyring == "" && where["inbox_event"] == 0 {
					t.Errorf("without a keyring the hash of %s is in %v, so the search would not see it", body, where)
				}
			}
			found := tablesWith(t, pool, schema, canary)
			// What is made of content is a hash that nobody can guess at without the installation's secret.
			recipe := sha256.Sum256([]byte(`[1,"` + canary + `"]`))
			var key string
			err := pool.QueryRow(t.Context(), `SELECT e.idempotency_key FROM effect e JOIN route r ON r.id = e.route_id WHERE r.name = 'mapped'`).Scan(&key)
			if plain := inbox.MeaningKey(nil, "agents", "mapped", recipe[:]); err != nil || !strings.HasPrefix(key, "og2_") || (key == plain) != (keyring == "") {
				t.Errorf("the idempotency key by recipe is %s, without a secret it would be %s: %v", key, plain, err)
			}
			if keyring != "" {
				if len(found) > 0 {
					t.Errorf("in plain: %v", found)
				}
				return
			}
			for _, table := range []string{"inbox_body", "effect", "effect_attempt", "operation_result", "refusal"} {
				if found[table] == 0 {
					t.Errorf("nothing of %s was looked at: the test would not see what is in plain there", table)
				}
			}
		})
	}
}

func runWithCanary(t *testing.T, url, schema string, pool *pgxpool.Pool, keyring string) (log, metrics string) {
	t.Helper()
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), "failing") {
			w.WriteHeader(http.StatusInternalServerError)
		}
		_, _ = fmt.Fprintf(w, `{"said":%q}`, body)
	}))
	t.Cleanup(target.Close)
	cat := catalogtest.Load(t)
	cfg, err := config.Load(config.Options{Catalog: cat, File: "oncegate.yml", Content: []byte(sealedFile), Environ: []string{
		"DATABASE_URL=" + url, "ONCEGATE_SCHEMA=" + schema, "ONCEGATE_PUBLIC=127.0.0.1:0", "ONCEGATE_ADMIN=127.0.0.1:0", "ONCEGATE_SWEEP_EVERY=1s",
		"AGENT=agent_secret", "HOOKS=whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX", "TARGET=" + target.URL, "ONCEGATE_KEYRING=" + keyring,
	}})
	if err != nil {
		t.Fatal(err)
	}
	var out logtest.Buffer
	a, err := app.New(t.Context(), app.Config{
		Settings: cfg, Logger: slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})), Receive: true, Work: true, Version: "test",
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	o := &operated{a: a}
	call := func(operation, key, body string) {
		o.do(t, http.MethodPost, "agents", body, "Oncegate-Operation", operation, "Idempotency-Key", key)
	}
	call("charge", "one", `{"note":"`+canary+`"}`)
	call("charge", "one", `{"note":"`+canary+`","more":"`+canary+`"}`) // a conflict
	call("fail", "two", `{"note":"failing `+canary+`"}`)
	// A signature that does not match: kept whole, as a refusal.
	o.do(t, http.MethodPost, "hooks", `{"type":"a","note":"`+canary+`"}`, "Webhook-Id", "msg_1", "Webhook-Timestamp", "1700000000",
		"Webhook-Signature", "v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=", "User-Agent", canary)
	inboxtest.Until(t, "all is at rest", func() bool {
		var open, refusals, dead int
		err := pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM effect WHERE state NOT IN ('done', 'dead')), (SELECT count(*) FROM refusal),
			(SELECT count(*) FROM effect WHERE state = 'dead')`).Scan(&open, &refusals, &dead)
		if err != nil {
			t.Fatal(err)
		}
		return open == 0 && refusals == 1 && dead == 2
	})
	call("charge", "one", `{"note":"`+canary+`"}`) // asks for the document
	metrics = get(t, "http://"+a.AdminAddr().String()+"/metrics")
	if err := a.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
	return out.String(), metrics
}

func get(t *testing.T, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d, %v", url, response.StatusCode, err)
	}
	return string(body)
}

// tablesWith counts the rows of every table, River's too, that hold the text, as it
// is or as bytes.
func tablesWith(t *testing.T, pool *pgxpool.Pool, schema, text string) map[string]int {
	t.Helper()
	rows, err := pool.Query(t.Context(), `SELECT c.relname FROM pg_class c WHERE c.relnamespace = $1::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition`, schema)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	if len(tables) < 15 {
		t.Fatalf("only %d tables", len(tables))
	}
	found := map[string]int{}
	for _, table := range tables {
		var n int
		sql := `SELECT count(*) FROM ` + pgx.Identifier{schema, table}.Sanitize() + ` t WHERE strpos(t::text, $1) > 0 OR strpos(t::text, $2) > 0`
		if err := pool.QueryRow(t.Context(), sql, text, hex.EncodeToString([]byte(text))).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			found[table] = n
		}
	}
	return found
}

func lineWith(text, part string) string {
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) {
			return line
		}
	}
	return ""
}
