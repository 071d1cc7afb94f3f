package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// injectFault causes the fault of the variant, if it has one, and returns the violations that it saw meanwhile.
func (c *campaign) injectFault(ctx context.Context) (found []rig.Violation, err error) {
	watcher, err := c.Connect(ctx, c.Schema)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, watcher.Close(context.WithoutCancel(ctx))) }()
	switch {
	case c.variant.locked > 0:
		return c.lockStream(ctx, watcher)
	case c.variant.vanish:
		return c.vanishWorker(ctx, watcher)
	case c.variant.jump:
		return c.jumpClock(ctx, watcher)
	}
	return nil, nil
}

// describeFault describes what came of the fault, for the result.
func (c *campaign) describeFault() string {
	switch {
	case c.variant.locked > 0:
		return fmt.Sprintf(", a stream locked for %.0f s (%d effects of others done meanwhile, at most %.1f s without one)",
			c.lockedFor.Seconds(), c.othersDone, c.longestStandstill.Seconds())
	case c.variant.vanish:
		return fmt.Sprintf(", %d host vanished inside a transaction (at most %.1f s without an effect after it)", c.vanishedHosts, c.longestStandstill.Seconds())
	case c.jumped:
		return c.describeJump()
	}
	return ""
}

// maxStandstill is how long the free streams may make no progress while one stream is locked and they have work.
const maxStandstill = 10 * time.Second

// lockedKey is the sequence whose stream is locked.
const lockedKey = "k0"

// The stream of a sequence, found by the events' ids, because the key itself may be sealed.
const streamOfSequence = `(
    SELECT t.id
    FROM inbox_event v
    JOIN effect e ON e.event_id = v.id
    JOIN stream t ON t.route_id = e.route_id AND t.key_hash = e.sequence_key_hash
    WHERE split_part(v.event_id, '_', 2) = $1
    LIMIT 1)`

const lockOneStream = `SELECT FROM stream s WHERE s.id = ` + streamOfSequence + ` FOR UPDATE`

// The progress of all sequences but one, and whether any of them has work left.
const readProgress = `
SELECT (SELECT count(*) FROM effect e WHERE e.state = 'done' AND e.sequence_key_hash IS DISTINCT FROM s.key_hash),
    EXISTS (SELECT FROM effect e WHERE e.state IN ('pending', 'retry', 'claimed', 'held') AND e.sequence_key_hash IS DISTINCT FROM s.key_hash),
    (SELECT count(*) FROM effect e WHERE e.state = 'done' AND e.sequence_key_hash = s.key_hash)
FROM stream s
WHERE s.id = ` + streamOfSequence

// lockStream locks one stream for the variant's time, as a person with a database client would, and measures how the
// other streams proceed.
func (c *campaign) lockStream(ctx context.Context, watcher *pgx.Conn) (found []rig.Violation, err error) {
	stranger, err := c.Connect(ctx, c.Schema)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stranger.Close(context.WithoutCancel(ctx))) }()
	for {
		if _, err := stranger.Exec(ctx, "BEGIN"); err != nil {
			return nil, fmt.Errorf("locking a stream: %w", err)
		}
		tag, err := stranger.Exec(ctx, lockOneStream, lockedKey)
		if err != nil {
			return nil, fmt.Errorf("locking a stream: %w", err)
		}
		if tag.RowsAffected() == 1 {
			break
		}
		if _, err := stranger.Exec(ctx, "ROLLBACK"); err != nil {
			return nil, fmt.Errorf("locking a stream: %w", err)
		}
		if !rig.Pause(ctx, 50*time.Millisecond) {
			return nil, nil
		}
	}
	var first, last, lockedAtFirst, locked int
	began := time.Now()
	still := began
	for c.lockedFor = 0; c.lockedFor < c.variant.locked && rig.Pause(ctx, 200*time.Millisecond); c.lockedFor = time.Since(began) {
		var now int
		var open bool
		if err := watcher.QueryRow(context.WithoutCancel(ctx), readProgress, lockedKey).Scan(&now, &open, &locked); err != nil {
			return nil, fmt.Errorf("watching the others: %w", err)
		}
		if first == 0 {
			first, last, lockedAtFirst = now+1, now, locked
		}
		if now != last || !open {
			last, still = now, time.Now()
		}
		c.longestStandstill = max(c.longestStandstill, time.Since(still))
	}
	c.othersDone = last - first + 1
	if c.longestStandstill > maxStandstill {
		found = append(found, rig.NewViolation(heldUp, "for %s nothing of the others was done while %s was locked", c.longestStandstill.Round(time.Millisecond), lockedKey))
	}
	if c.othersDone == 0 {
		found = append(found, rig.NewViolation(heldUp, "nothing of the others was done while %s was locked", lockedKey))
	}
	if locked != lockedAtFirst {
		found = append(found, rig.NewViolation(unlocked, "%d effects of %s were done while it was locked", locked-lockedAtFirst, lockedKey))
	}
	return found, nil // closing the connection unlocks the stream
}

// watchAfterVanishing is how long the other streams are watched after a host has vanished.
const watchAfterVanishing = 30 * time.Second

// workPool is the application_name of the workers' connections.
const workPool = "oncegate work"

// vanishWorker has the host of one worker vanish in the middle of a transaction, and measures how the other streams
// proceed.
func (c *campaign) vanishWorker(ctx context.Context, watcher *pgx.Conn) (found []rig.Violation, err error) {
	proxy, dsn, err := rig.StartProxy(c.DSN(), workPool)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, proxy.Close()) }()
	p, err := c.serve(context.WithoutCancel(ctx), "work", dsn, "")
	if err != nil {
		return nil, err
	}
	select {
	case <-ctx.Done():
		return nil, p.Kill()
	case <-proxy.VanishNext(workPool):
	}
	c.vanishedHosts++
	if err := p.Kill(); err != nil { // the server does not notice that
		return nil, err
	}
	var last int
	began := time.Now()
	for still := began; time.Since(began) < watchAfterVanishing && rig.Pause(ctx, 200*time.Millisecond); {
		var now, own int
		var open bool
		if err := watcher.QueryRow(context.WithoutCancel(ctx), readProgress, lockedKey).Scan(&now, &open, &own); err != nil {
			return nil, fmt.Errorf("watching the others: %w", err)
		}
		if now+own != last || !open {
			last, still = now+own, time.Now()
		}
		c.longestStandstill = max(c.longestStandstill, time.Since(still))
	}
	if c.longestStandstill > maxStandstill {
		found = append(found, rig.NewViolation(heldUp, "for %s nothing was done after a host had vanished", c.longestStandstill.Round(time.Millisecond)))
	}
	return found, nil
}
