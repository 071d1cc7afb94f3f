package app_test

import (
	"encoding/base64"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/inbox/seal"
	"github.com/oncegate/oncegate/internal/session"
)

// formsOf are the text as it is, in hex and in base64 at each of the three places at which it may begin.
func formsOf(text string) []string {
	forms := []string{text, hex.EncodeToString([]byte(text)), strings.ToUpper(hex.EncodeToString([]byte(text)))}
	for before := range 3 {
		encoded := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("x", before) + text))
		forms = append(forms, encoded[(before*4+2)/3:len(encoded)-1]) // the outer characters also depend on the neighbours
	}
	return forms
}

// Once every event is erased, and the refusals that belong to none, its content is in no table, no log line and no metric, in no form, with and without a keyring.
func TestNothingErasedIsLeft(t *testing.T) {
	t.Parallel()
	for name, keys := range map[string]string{"sealed": "1 AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8= active", "plain": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, schema := inboxtest.Schema(t)
			pool := inboxtest.Open(t, url, schema, session.PoolAdmin, 4)
			log, metrics := runWithCanary(t, url, schema, pool, keys)
			var keyring *seal.Keyring
			if keys != "" {
				var err error
				if keyring, err = seal.New(func() ([]byte, error) { return []byte(keys), nil }, time.Now); err != nil {
					t.Fatal(err)
				}
			}
			type event struct{ Source, EventID string }
			rows, err := pool.Query(t.Context(), `SELECT s.name, e.event_id FROM inbox_event e JOIN source s ON s.id = e.source_id`)
			if err != nil {
				t.Fatal(err)
			}
			events, err := pgx.CollectRows(rows, pgx.RowToStructByPos[event])
			if err != nil || len(events) != 2 {
				t.Fatalf("%v, %v", events, err)
			}
			for _, e := range events {
				if _, err := prune.EraseEvent(t.Context(), pool, prune.Erase{Source: e.Source, EventID: e.EventID, Actor: "ann", Reason: "asked", Keyring: keyring}); err != nil {
					t.Fatal(err)
				}
			}
			refusals, err := prune.EraseRefusals{Source: "hooks", Containing: strings.ToUpper(canary), Actor: "ann", Reason: "asked", Keyring: keyring}.Run(t.Context(), pool)
			if err != nil || refusals.Refusals != 1 || refusals.Unreadable != 0 {
				t.Fatalf("erased the refusals %+v: %v, want the one with the content", refusals, err)
			}
			for _, form := range formsOf(canary) {
				for what, text := range map[string]string{"the log": log, "the metrics": metrics} {
					if strings.Contains(text, form) {
						t.Errorf("%s has the content as %s: %s", what, form, lineWith(text, form))
					}
				}
				if found := tablesWith(t, pool, schema, form); len(found) > 0 {
					t.Errorf("after the erasure %s is in %v", form, found)
				}
			}
		})
	}
}
