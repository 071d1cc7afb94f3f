package read

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/internal/place"
	"github.com/oncegate/oncegate/internal/pgtext"
)

// Message is what identifies the message of an effect: to a person who knows the recipient, and to a mail server.
type Message struct {
	// Recipient is the address. Of an item of a list for which no message could be made it is the text that the list has.
	Recipient string `json:"recipient,omitempty" shows:"address"`

	// Subject is the decoded subject. MessageID is the Message-ID that Oncegate made.
	Subject   string `json:"subject,omitempty" shows:"content"`
	MessageID string `json:"message_id,omitempty" shows:"content"`

	// Problem says why the message cannot be shown: the key is missing under which it is sealed, or the messages of the page are too
	// large together. Ask for the effect alone then.
	Problem string `json:"problem,omitempty"`
}

// MaxMessageText bounds each text of a [Message], in bytes.
const MaxMessageText = 1000

// The limits of reading messages. Of a message that is not sealed only the beginning is read, which contains its
// header. A sealed message must be opened as a whole, so a page reads no further messages once those it has read have
// maxMessages bytes together.
const (
	messageHeader = 64 << 10
	maxMessages   = 32 << 20
)

// WithMessages returns a Lister that reads messages. describe returns the contents of a rendered message, and whether
// the bytes are one.
func (l *Lister) WithMessages(describe func(rendered []byte) (Message, bool)) *Lister {
	with := *l
	with.describe = describe
	return &with
}

// Messages are kept of effects of mail routes for which something is rendered. An item for which nothing could be rendered has its
// text in the list, which is kept with the effect h that became it.
const (
	findMessages = `
SELECT e.id, e.item, coalesce(CASE WHEN e.rendered_key_id IS NULL THEN least(octet_length(e.rendered), $2::int) ELSE octet_length(e.rendered) END, 0), h.id
FROM effect e
JOIN route r ON r.id = e.route_id AND r.kind = 'mail'
LEFT JOIN effect h ON e.rendered IS NULL AND e.item > 0 AND h.event_id = e.event_id AND h.route_id = e.route_id AND h.item = 0 AND h.rendered IS NOT NULL
WHERE e.id = ANY ($1::uuid[]) AND (e.rendered IS NOT NULL OR h.id IS NOT NULL)
ORDER BY e.item, e.id`

	readMessages = `
SELECT e.id, e.rendered_key_id, CASE WHEN e.rendered_key_id IS NULL THEN substring(e.rendered FOR $2::int) ELSE e.rendered END
FROM effect e
WHERE e.id = ANY ($1::uuid[])`

	readItemTexts = `SELECT e.rendered_key_id, e.rendered FROM effect e WHERE e.id = $1`
)

// Messages returns the kept messages of effects, for example of the items of one list. If open is false it only says
// which effects have one, and opens nothing.
func (l *Lister) Messages(ctx context.Context, effects []inbox.ID, open bool) (map[inbox.ID]Message, error) {
	out := map[inbox.ID]Message{}
	rows, err := l.pool.Query(ctx, findMessages, effects, messageHeader)
	if err != nil {
		return nil, fmt.Errorf("reading messages: %w", err)
	}
	var rendered []inbox.ID
	listed := map[inbox.ID]map[inbox.ID]int{} // items by the effect that became the list
	var id, head inbox.ID
	var item, size, total int
	_, err = pgx.ForEachRow(rows, []any{&id, &item, &size, &head}, func() error {
		switch out[id] = (Message{}); {
		case !head.IsZero() && listed[head] == nil:
			listed[head] = map[inbox.ID]int{id: item}
		case !head.IsZero():
			listed[head][id] = item
		case total < maxMessages:
			rendered, total = append(rendered, id), total+size
		default:
			out[id] = Message{Problem: "the messages of this page are too large to be read together"}
		}
		return nil
	})
	if err == nil && open {
		err = l.readMessages(ctx, rendered, out)
	}
	for head, items := range listed {
		if err == nil && open {
			err = l.readItemTexts(ctx, head, items, out)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("reading messages: %w", err)
	}
	return out, nil
}

func (l *Lister) readMessages(ctx context.Context, effects []inbox.ID, out map[inbox.ID]Message) error {
	rows, err := l.pool.Query(ctx, readMessages, effects, messageHeader)
	if err != nil {
		return err
	}
	var id inbox.ID
	var keyID *int32
	var stored []byte
	_, err = pgx.ForEachRow(rows, []any{&id, &keyID, &stored}, func() error {
		delete(out, id) // unless it turns out to be a message
		if opened, err := l.keys.Open(place.Rendered(id), keyID, stored); err != nil {
			out[id] = Message{Problem: err.Error()}
		} else if m, ok := l.describe(opened); ok {
			out[id] = Message{
				Recipient: pgtext.Clean(m.Recipient, MaxMessageText), Subject: pgtext.Clean(m.Subject, MaxMessageText), MessageID: pgtext.Clean(m.MessageID, MaxMessageText),
			}
		}
		return nil
	})
	return err
}

// readItemTexts sets the recipients of items from the list to which they belong.
func (l *Lister) readItemTexts(ctx context.Context, head inbox.ID, items map[inbox.ID]int, out map[inbox.ID]Message) error {
	var keyID *int32
	var stored []byte
	if err := l.pool.QueryRow(ctx, readItemTexts, head).Scan(&keyID, &stored); err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	opened, err := l.keys.Open(place.Rendered(head), keyID, stored)
	var texts []string
	if err == nil && json.Unmarshal(opened, &texts) != nil {
		texts = nil // it was erased meanwhile
	}
	for id, item := range items {
		switch {
		case err != nil:
			out[id] = Message{Problem: err.Error()}
		case item <= len(texts):
			out[id] = Message{Recipient: pgtext.Clean(texts[item-1], MaxMessageText)}
		default:
			delete(out, id)
		}
	}
	return nil
}
