package notification

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// List returns the open things as of the last look, in the order of the start page.
func List(ctx context.Context, pool *pgxpool.Pool) ([]Open, error) {
	all, err := readAll(ctx, pool)
	if err != nil {
		return nil, fmt.Errorf("listing what waits for an operator: %w", err)
	}
	sorted(all)
	return all, nil
}

// ErrOff means that no process sends notifications.
var ErrOff = errors.New("no process sends notifications: set notifications.source in the configuration and start a process with the role work")

const readSource = `SELECT source, clock_timestamp() FROM notification_look WHERE looked_at > '-infinity'`

// SendTest emits a test message in a transaction, and returns its source and its event id. It returns [ErrOff] if no process looks, and a
// [SourceError] if the source takes no emitted events.
func SendTest(ctx context.Context, tx pgx.Tx, url string) (source, event string, err error) {
	var now time.Time
	err = tx.QueryRow(ctx, readSource).Scan(&source, &now)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", "", ErrOff
	}
	if err != nil {
		return "", "", fmt.Errorf("sending a test message: %w", err)
	}
	m := newMessage(Test, url, nil, 0)
	b := &pgx.Batch{}
	if event, err = emit(b, source, Test, now, &m); err == nil {
		err = tx.SendBatch(ctx, b).Close()
	}
	if err != nil {
		return "", "", fmt.Errorf("sending a test message: %w", err)
	}
	return source, event, nil
}
