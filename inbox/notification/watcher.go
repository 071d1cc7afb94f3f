package notification

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox/attention"
)

const (
	// DefaultEvery, DefaultFold and DefaultSettle are the defaults of [Config].
	DefaultEvery  = 30 * time.Second
	DefaultFold   = time.Minute
	DefaultSettle = 5 * time.Minute
)

// Config configures a [Watcher]. Pool, Reader and Source are required.
type Config struct {
	// Pool is one that no deliveries use.
	Pool *pgxpool.Pool

	// Reader finds the things that wait for an operator.
	Reader *attention.Reader

	// Source is the name of the source to which messages are emitted.
	Source string

	// Kinds are the kinds that produce messages. The default is [DefaultKinds].
	Kinds []attention.Kind

	// Every is how often the caller looks. It defaults to [DefaultEvery].
	Every time.Duration

	// Fold is how long a message is delayed after its first thing was seen, so that it includes related things. It defaults to
	// [DefaultFold].
	Fold time.Duration

	// Settle is how long a thing must be gone before it is over. It defaults to [DefaultSettle].
	Settle time.Duration

	// Digest is when the daily digest is due, as the time since midnight in UTC. nil sends none.
	Digest *time.Duration

	// URL is the address of the console, for links. It may be empty.
	URL string
}

// Watcher finds changes and emits messages about them.
type Watcher struct{ cfg Config }

// DefaultKinds returns every kind except planned replays, because the person who plans a replay knows about it.
func DefaultKinds() []attention.Kind {
	var out []attention.Kind
	for _, kind := range attention.Kinds() {
		if kind != attention.Plans {
			out = append(out, kind)
		}
	}
	return out
}

// New makes a watcher.
func New(cfg Config) (*Watcher, error) {
	if cfg.Pool == nil || cfg.Reader == nil || cfg.Source == "" {
		return nil, errors.New("notification: Pool, Reader and Source are required")
	}
	if len(cfg.Kinds) == 0 {
		cfg.Kinds = DefaultKinds()
	}
	cfg.Every, cfg.Fold, cfg.Settle = cmp.Or(cfg.Every, DefaultEvery), cmp.Or(cfg.Fold, DefaultFold), cmp.Or(cfg.Settle, DefaultSettle)
	return &Watcher{cfg: cfg}, nil
}

// The first look makes the row. The text is compared later because it has every digit of the time. A time in the future is not recent,
// because the clock of the database was set back.
const lastLook = `
WITH made AS (
    INSERT INTO notification_look (source) VALUES ($1) ON CONFLICT ON CONSTRAINT notification_look_pkey DO NOTHING)
SELECT l.looked_at::text, l.looked_at BETWEEN now() - $2::bigint * interval '1 microsecond' AND now() FROM notification_look l`

// Look finds the things that wait, compares them with the open things of the last look, and emits messages about the differences. It
// returns the number of messages. It does nothing if another process looked within half of Every, or has looked while this one did.
func (w *Watcher) Look(ctx context.Context) (emitted int, err error) {
	var last string
	var recent bool
	err = w.cfg.Pool.QueryRow(ctx, lastLook, w.cfg.Source, (w.cfg.Every/2).Microseconds()).Scan(&last, &recent)
	if errors.Is(err, pgx.ErrNoRows) { // the statement does not see the row that it makes
		last, recent, err = "-infinity", false, nil
	}
	if err != nil || recent {
		return 0, wrapped(err)
	}
	found, err := w.cfg.Reader.Read(ctx, "")
	if err != nil {
		return 0, err
	}
	err = pgx.BeginFunc(ctx, w.cfg.Pool, func(tx pgx.Tx) (err error) {
		emitted, err = w.write(ctx, tx, last, seen(&found, w.cfg.Kinds))
		return err
	})
	if err != nil {
		return 0, wrapped(err)
	}
	return emitted, nil
}

func wrapped(err error) error {
	if err != nil {
		err = fmt.Errorf("notifying operators: %w", err)
	}
	return err
}

const takeLook = `
UPDATE notification_look SET looked_at = now(), source = $1 WHERE looked_at = $2::timestamptz
RETURNING now(), digest_at`

const (
	readOpen = `
SELECT kind, name, count, more, since, text, opened_at, gone_at, told_at, told_count FROM notification ORDER BY id`

	writeOpen = `
INSERT INTO notification (kind, name, count, more, since, text, opened_at, gone_at, told_at, told_count)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
ON CONFLICT ON CONSTRAINT notification_key DO UPDATE SET
    count = excluded.count, more = excluded.more, since = excluded.since, text = excluded.text,
    gone_at = excluded.gone_at, told_at = excluded.told_at, told_count = excluded.told_count`

	dropOpen = `DELETE FROM notification WHERE kind = $1 AND name = $2`

	markDigest = `UPDATE notification_look SET digest_at = now()`

	// A source has rows in the outbox under its first name. No row is inserted unless the source is open to emit.
	insertOutbox = `
INSERT INTO outbox (source, event_id, type, payload, ordered)
SELECT coalesce(s.key_name, s.name), $2, $3, $4, s.emit_ordered FROM source s WHERE s.name = $1 AND s.emit`
)

// write stores the result of a look and emits the messages. last is the time of the previous look as it was when this look began.
func (w *Watcher) write(ctx context.Context, tx pgx.Tx, last string, l look) (emitted int, err error) {
	var now, digested time.Time
	err = tx.QueryRow(ctx, takeLook, w.cfg.Source, last).Scan(&now, &digested)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil // another process was faster
	}
	if err != nil {
		return 0, err
	}
	was, err := readAll(ctx, tx)
	if err != nil {
		return 0, err
	}
	p := decide(now, w.cfg.Fold, w.cfg.Settle, was, l)
	b := &pgx.Batch{}
	for i := range p.keep {
		o := &p.keep[i]
		b.Queue(writeOpen, o.Kind, o.Name, o.Count, o.More, o.Since, o.Text, o.OpenedAt, o.GoneAt, o.ToldAt, o.ToldCount)
	}
	for i := range p.drop {
		b.Queue(dropOpen, p.drop[i].Kind, p.drop[i].Name)
	}
	waiting := waits(p.keep)
	messages := map[string][]Open{Opened: p.opened, Resolved: p.resolved}
	if w.digestIsDue(now, digested) {
		b.Queue(markDigest)
		messages[Digest] = waiting
	}
	for _, kind := range []string{Opened, Resolved, Digest} {
		things, asked := messages[kind]
		if !asked || kind != Digest && len(things) == 0 {
			continue
		}
		m := newMessage(kind, w.cfg.URL, things, len(waiting))
		if _, err := emit(b, w.cfg.Source, kind, now, &m); err != nil {
			return 0, err
		}
		emitted++
	}
	return emitted, tx.SendBatch(ctx, b).Close()
}

// waits returns the things that the last look saw.
func waits(all []Open) (out []Open) {
	for _, o := range all {
		if o.GoneAt == nil {
			out = append(out, o)
		}
	}
	return out
}

// digestIsDue reports whether the time of the digest has come since the last one.
func (w *Watcher) digestIsDue(now, last time.Time) bool {
	if w.cfg.Digest == nil {
		return false
	}
	due := now.UTC().Truncate(24 * time.Hour).Add(*w.cfg.Digest)
	if due.After(now) {
		due = due.Add(-24 * time.Hour)
	}
	return last.Before(due) || last.After(now) // the clock of the database was set back
}

// emit queues a message for the outbox. Its event id consists of its type and the time of the look, because no two looks have the same
// time.
func emit(b *pgx.Batch, source, kind string, at time.Time, m *message) (event string, err error) {
	body, err := json.Marshal(m)
	if err != nil {
		return "", err
	}
	event = kind + "/" + at.UTC().Format(time.RFC3339Nano)
	b.Queue(insertOutbox, source, event, kind, body).Exec(func(tag pgconn.CommandTag) error {
		if tag.RowsAffected() == 0 {
			return &SourceError{source}
		}
		return nil
	})
	return event, nil
}

// SourceError says that the source of the messages takes none.
type SourceError struct{ Source string }

func (e *SourceError) Error() string {
	return "source " + e.Source + " takes no emitted events: no process has registered it with emit: true"
}

func readAll(ctx context.Context, q interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}) ([]Open, error) {
	rows, err := q.Query(ctx, readOpen)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (o Open, err error) {
		err = row.Scan(&o.Kind, &o.Name, &o.Count, &o.More, &o.Since, &o.Text, &o.OpenedAt, &o.GoneAt, &o.ToldAt, &o.ToldCount)
		return o, err
	})
}
