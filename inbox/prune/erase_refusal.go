package prune

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/place"
	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/inbox/seal"
)

// minSearchLength is the length of the shortest text that refusals are searched for. A shorter text would match too many
// unrelated refusals.
const minSearchLength = 4

const (
	// $3 selects refusals by id, $4 by peer, $5 and $6 by the time of receipt. NULL and '' select all.
	readSourceRefusals = `
SELECT r.id, r.url, r.diagnosis, r.key_id, r.headers, r.body FROM refusal r
WHERE r.source_id = $1 AND r.id > $2::uuid AND ($3::uuid[] IS NULL OR r.id = ANY ($3::uuid[]))
    AND ($4::text = '' OR r.peer = $4::text OR r.remote = $4::text)
    AND ($5::timestamptz IS NULL OR r.received_at >= $5) AND ($6::timestamptz IS NULL OR r.received_at < $6)
ORDER BY r.id LIMIT 50`

	deleteRefusalsByID = `DELETE FROM refusal WHERE id = ANY ($1::uuid[])`

	findRefusalSource = `SELECT id FROM source WHERE name = $1`
)

// ErrRefusalScope is returned for an [EraseRefusals] that names no refusals, or a text that is too short to search for.
var ErrRefusalScope = errors.New("say which refusals: their ids, a peer, a time, or a text of at least 4 bytes that they contain")

// EraseRefusals is a request to delete refused deliveries. A refused delivery belongs to no event, so [EraseEvent] finds only
// those that quote the event's id.
type EraseRefusals struct {
	// Source is the name of the source. It is required, and so is at least one of the fields below. All of them must match.
	Source string

	// IDs are the ids of refusals.
	IDs []inbox.ID

	// Peer is the sender's address as a refusal shows it, or the /64 network of an IPv6 address.
	Peer string

	// Since and Until are the earliest receipt and the end of the receipts.
	Since, Until time.Time

	// Containing is a text in the URL, the diagnosis, the headers or the body, such as a person's address. It is found
	// literally and in the encoding of forms and URLs, ignoring the case of ASCII letters. It is not written to the audit.
	Containing string

	// Actor and Reason go into the audit. Both are required.
	Actor, Reason string

	// Keyring opens refusals that are sealed; nil where nothing is.
	Keyring *seal.Keyring
}

// ErasedRefusals counts refusals.
type ErasedRefusals struct {
	Source string `json:"source"`

	// Refusals were deleted. Unreadable ones are sealed with a key that is not in the keyring, so that it is not known
	// whether they contain the text: erase them by their ids, or by their peer or time alone.
	Refusals   int `json:"refusals"`
	Unreadable int `json:"unreadable"`
}

// Run deletes the refusals, some at a time, and then writes the audit, also when it could delete only some of them. It returns
// [inbox.ErrNotFound] if there is no such source, and [ErrRefusalScope].
func (r EraseRefusals) Run(ctx context.Context, pool *pgxpool.Pool) (out ErasedRefusals, err error) {
	out.Source = r.Source
	if err := inbox.CheckExplanation(r.Actor, r.Reason); err != nil {
		return out, fmt.Errorf("erasing refusals: %w", err)
	}
	searched := r.Containing != ""
	if searched && len(r.Containing) < minSearchLength || len(r.IDs) == 0 && r.Peer == "" && r.Since.IsZero() && r.Until.IsZero() && !searched {
		return out, fmt.Errorf("erasing refusals: %w", ErrRefusalScope)
	}
	var source int32
	err = pool.QueryRow(ctx, findRefusalSource, r.Source).Scan(&source)
	if errors.Is(err, pgx.ErrNoRows) {
		return out, fmt.Errorf("source %s: %w", r.Source, inbox.ErrNotFound)
	}
	if err != nil {
		return out, fmt.Errorf("erasing refusals: %w", err)
	}
	w := refusalWalk{keyring: r.Keyring, source: source, ids: r.IDs, peer: r.Peer, since: r.Since, until: r.Until, texts: spellings(r.Containing)}
	walked := w.run(ctx, pool)
	out.Refusals, out.Unreadable = w.erased, w.unreadable
	if err := pgx.BeginFunc(context.WithoutCancel(ctx), pool, func(tx pgx.Tx) error { return r.audit(ctx, tx, &out) }); err != nil {
		return out, fmt.Errorf("recording that refusals of %s were erased: %w", r.Source, err)
	}
	if walked != nil {
		return out, fmt.Errorf("erasing refusals of %s: %w", r.Source, walked)
	}
	return out, nil
}

func (r *EraseRefusals) audit(ctx context.Context, tx pgx.Tx, out *ErasedRefusals) error {
	ctx = context.WithoutCancel(ctx) // rows are gone, and the audit must say so
	var now time.Time
	if err := tx.QueryRow(ctx, row.ReadClock).Scan(&now); err != nil {
		return err
	}
	before := map[string]any{"source": r.Source, "ids": len(r.IDs), "peer": r.Peer != "", "text": r.Containing != ""}
	if !r.Since.IsZero() {
		before["since"] = r.Since
	}
	if !r.Until.IsZero() {
		before["until"] = r.Until
	}
	return inbox.WriteAuditTx(ctx, tx, inbox.AuditEntry{
		At: now, Actor: r.Actor, Action: inbox.AuditEraseRefusals, Object: "source/" + r.Source, Reason: r.Reason, Before: before, After: out,
	})
}

// eraseRefusals removes the refused deliveries of the source that contain the event's id literally. It cannot find a
// refusal under a lost key.
func (r *Erase) eraseRefusals(ctx context.Context, pool *pgxpool.Pool, source int32, out *Erased) error {
	if len(r.EventID) < minSearchLength {
		out.NotSearched = true
		return nil
	}
	w := refusalWalk{keyring: r.Keyring, source: source, texts: [][]byte{[]byte(r.EventID)}, exact: true}
	err := w.run(ctx, pool)
	out.Refusals, out.Unreadable = w.erased, w.unreadable
	return err
}

// spellings returns how a text is written literally, in forms, in URLs and in JSON with escaped slashes; in lower case.
func spellings(text string) (out [][]byte) {
	if text == "" {
		return nil
	}
	for _, one := range []string{text, url.QueryEscape(text), url.PathEscape(text), strings.ReplaceAll(text, "/", `\/`)} {
		if lower := lowerASCII([]byte(one)); !slices.ContainsFunc(out, func(known []byte) bool { return bytes.Equal(known, lower) }) {
			out = append(out, lower)
		}
	}
	return out
}

// lowerASCII is the text with the ASCII letters in lower case. It keeps other bytes, which may be no UTF-8.
func lowerASCII(text []byte) []byte {
	out := bytes.Clone(text)
	for i, c := range out {
		if c >= 'A' && c <= 'Z' {
			out[i] = c + 'a' - 'A'
		}
	}
	return out
}

// refusalWalk deletes refusals of one source.
type refusalWalk struct {
	keyring      *seal.Keyring
	source       int32
	ids          []inbox.ID
	peer         string
	since, until time.Time

	// texts are searched for; empty matches every refusal. exact compares the case of letters too.
	texts [][]byte
	exact bool

	erased, unreadable int
}

// storedRefusal contains the fields of a refusal that are searched.
type storedRefusal struct {
	id             inbox.ID
	url, diagnosis string
	keyID          *int32
	headers, body  []byte
}

func (w *refusalWalk) run(ctx context.Context, pool *pgxpool.Pool) error {
	var after inbox.ID
	for {
		rows, err := pool.Query(ctx, readSourceRefusals, w.source, floor(after), w.ids, w.peer, row.Micros(w.since), row.Micros(w.until))
		if err != nil {
			return fmt.Errorf("searching refusals: %w", err)
		}
		var found []inbox.ID
		var r storedRefusal
		looked := 0
		_, err = pgx.ForEachRow(rows, []any{&r.id, &r.url, &r.diagnosis, &r.keyID, &r.headers, &r.body}, func() error {
			looked++
			after = r.id
			if w.matches(&r) {
				found = append(found, r.id)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("searching refusals: %w", err)
		}
		if len(found) > 0 {
			tag, err := pool.Exec(ctx, deleteRefusalsByID, found)
			if err != nil {
				return fmt.Errorf("removing refusals: %w", err)
			}
			w.erased += int(tag.RowsAffected())
		}
		if looked == 0 {
			return nil
		}
	}
}

// matches reports whether a refusal that was read contains one of the texts.
func (w *refusalWalk) matches(r *storedRefusal) bool {
	if len(w.texts) == 0 {
		return true
	}
	if w.contains([]byte(r.url)) || w.contains([]byte(r.diagnosis)) {
		return true
	}
	headers, body, err := place.OpenRefusal(w.keyring, r.id, r.keyID, r.headers, r.body)
	if err != nil {
		w.unreadable++
		return false
	}
	return w.contains(headers) || w.contains(body)
}

func (w *refusalWalk) contains(content []byte) bool {
	if !w.exact {
		content = lowerASCII(content)
	}
	return slices.ContainsFunc(w.texts, func(text []byte) bool { return bytes.Contains(content, text) })
}
