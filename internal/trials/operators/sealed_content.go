package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/seal"
	"github.com/oncegate/oncegate/internal/drill/rig"
)

// sealedValues are the places of sealed content. Each query returns the row and the item of a place, the key, and the
// value.
var sealedValues = []struct{ table, column, query string }{
	{"inbox_body", "body", `SELECT id, 0::bigint, key_id, body FROM inbox_body`},
	{"effect", "rendered", `SELECT id, 0::bigint, rendered_key_id, rendered FROM effect WHERE rendered IS NOT NULL`},
	{"effect", "fetched", `SELECT id, 0::bigint, fetched_key_id, fetched FROM effect WHERE fetched IS NOT NULL`},
	{"effect", "result", `SELECT coalesce(duplicate_of, id), 0::bigint, result_key_id, result FROM effect WHERE result IS NOT NULL`},
	{"effect_attempt", "excerpt", `SELECT effect_id, 0::bigint, excerpt_key_id, excerpt_sealed FROM effect_attempt WHERE excerpt_sealed IS NOT NULL`},
	{"conflict", "body", `SELECT id, 0::bigint, key_id, body FROM conflict`},
	{"conflict", "sequence", `SELECT id, 0::bigint, sequence_key_id, sequence_sealed FROM conflict WHERE sequence_sealed IS NOT NULL`},
	{"stream", "key_label", `SELECT encode(substr(key_hash, 1, 16), 'hex')::uuid, route_id::bigint, key_label_key_id, key_label_sealed
FROM stream WHERE key_label_sealed IS NOT NULL`},
	{"replay_item", "diff", `SELECT replay_id, position, diff_key_id, diff FROM replay_item WHERE diff IS NOT NULL`},
	{"refusal", "body", `SELECT id, 0::bigint, key_id, body FROM refusal WHERE whole`},
}

// openSealed opens everything that is sealed, and looks in it for erased content: what was resealed while it was erased
// must not have come back.
func (c *campaign) openSealed(ctx context.Context) error {
	keys, err := seal.New(func() ([]byte, error) { return os.ReadFile(c.keyring()) }, time.Now)
	if err != nil {
		return fmt.Errorf("opening the keyring: %w", err)
	}
	for _, v := range sealedValues {
		rows, err := c.db.Query(ctx, v.query)
		if err != nil {
			return fmt.Errorf("reading what is sealed in %s: %w", v.table, err)
		}
		var id inbox.ID
		var item int64
		var key *int32
		var value []byte
		var content bytes.Buffer
		_, err = pgx.ForEachRow(rows, []any{&id, &item, &key, &value}, func() error {
			plain, err := keys.Open(seal.Place{Table: v.table, Column: v.column, Row: id, Item: item}, key, value)
			if err != nil {
				c.violate(rig.NewViolation(damaged, "%s.%s of %s %d does not open: %v", v.table, v.column, id, item, err))
			}
			content.Write(plain)
			content.WriteByte('\n')
			return nil
		})
		if err != nil {
			return fmt.Errorf("reading what is sealed in %s: %w", v.table, err)
		}
		there := findMarkers(content.Bytes())
		for _, key := range sortedKeys(c.deliveries.events) {
			if v.column != "body" {
				break // payloads are only in bodies
			}
			c.violate(c.deliveries.events[key].findLost(v.table, key, there)...)
		}
		c.violate(findLeaks(v.table+"."+v.column+", sealed,", content.Bytes(), c.deliveries.events, false)...)
	}
	return nil
}

// conflictsKept is how many payloads that conflict with an event are kept.
const conflictsKept = 5

// findLost looks in a table's content for the acknowledged payloads of an event.
func (e *event) findLost(table, key string, there map[string]bool) (out []violation) {
	for i, s := range e.payloads {
		holds := table == "inbox_body" && i == 0 || table == "conflict" && i > 0 && len(e.payloads) <= conflictsKept
		if holds && !e.gone && !s.sentAt.IsZero() && !there[s.Marker] {
			out = append(out, rig.NewViolation(lost, "payload %d of %s was acknowledged at %s, and table %s does not hold it", i, key, s.sentAt.Format(clockFormat), table))
		}
	}
	return out
}
