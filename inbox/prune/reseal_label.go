package prune

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/inbox/labels"
	"github.com/oncegate/oncegate/internal/sleep"
)

// Labels that were stored before there was a keyring. They are not sealed but hashed, as new ones are, because they are
// searched for.
const readPlainLabels = `
SELECT l.event_id, l.name, l.value
FROM event_label l
WHERE (l.event_id, l.name) > ($1::uuid, $2::text) AND l.secret_id IS NULL
ORDER BY l.event_id, l.name
LIMIT $3`

type plainLabel struct {
	event       inbox.ID
	name        string
	plain, hash []byte
}

var plainLabelColumns = row.ColumnsFrom(2,
	row.UUID("event_id", func(l *plainLabel) inbox.ID { return l.event }),
	row.Text("name", func(l *plainLabel) string { return l.name }),
	row.Bytes("plain", func(l *plainLabel) []byte { return l.plain }),
	row.Bytes("hash", func(l *plainLabel) []byte { return l.hash }),
)

// A label that was deleted meanwhile is not restored.
var hashLabels = `
UPDATE event_label l SET value = k.hash, secret_id = $1::uuid
FROM unnest(` + plainLabelColumns.Arrays() + `) AS k (` + plainLabelColumns.Names() + `)
WHERE l.event_id = k.event_id AND l.name = k.name AND l.value = k.plain AND l.secret_id IS NULL`

// A plan of before names the label by which it was limited and, from then on, not its value.
const hidePlanLabels = `
UPDATE replay SET scope = jsonb_set(scope #- '{label,value}', '{label,hashed}', 'true')
WHERE scope->'label' ? 'value'`

// hashLabels hashes all labels that are plain under the secret of the installation, page by page.
func (cfg *ResealConfig) hashLabels(ctx context.Context, p *ResealProgress) error {
	p.Table, p.Looked = "event_label", 0
	if err := labels.MoveAll(ctx, cfg.Pool); err != nil {
		return err
	}
	if _, err := cfg.Pool.Exec(ctx, hidePlanLabels); err != nil {
		return fmt.Errorf("hiding the labels of plans: %w", err)
	}
	// The zero ID is stored as NULL, so the walk begins after the smallest other one.
	after := plainLabel{event: inbox.ID{15: 1}}
	for {
		var page []plainLabel
		err := pgx.BeginFunc(ctx, cfg.Pool, func(tx pgx.Tx) error {
			rows, err := tx.Query(ctx, readPlainLabels, after.event, after.name, resealRows)
			if err != nil {
				return err
			}
			page, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (l plainLabel, err error) {
				err = r.Scan(&l.event, &l.name, &l.plain)
				return l, err
			})
			if err != nil || len(page) == 0 {
				return err
			}
			secret, err := inbox.InstallationSecretTx(ctx, tx, cfg.Keyring)
			if err != nil {
				return err
			}
			for i := range page {
				page[i].hash = inbox.Label{Name: page[i].name, Value: string(page[i].plain)}.Stored(secret.Value)
			}
			tag, err := tx.Exec(ctx, hashLabels, plainLabelColumns.Append([]any{secret.ID}, page)...)
			p.Resealed += tag.RowsAffected()
			return err
		})
		if err != nil || len(page) == 0 {
			return err
		}
		after, p.Looked = page[len(page)-1], p.Looked+int64(len(page))
		if cfg.Progress != nil {
			cfg.Progress(*p)
		}
		if err := sleep.For(ctx, cfg.Pause); err != nil {
			return err
		}
	}
}
