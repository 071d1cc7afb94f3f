package jobs_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/jobs"
)

type effectArgs struct {
	Effect string `json:"effect"`
}

func (effectArgs) Kind() string { return "effect" }

type replayArgs struct {
	Replay string `json:"replay"`
}

func (replayArgs) Kind() string { return "replay" }

type rearmArgs struct {
	Event string `json:"event"`
}

func (rearmArgs) Kind() string { return "rearm" }

// Our raw rows against those of River's own client, column by column.
func TestQueueWritesTheRowsOfInsertTx(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := t.Context()
	client, err := river.NewClient(riverpgxv5.New(b.pool), &river.Config{})
	if err != nil {
		t.Fatal(err)
	}
	id := inbox.NewID(time.Now())
	opts := &river.InsertOpts{MaxAttempts: 1000, Priority: 2}
	err = pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
		if _, err := client.InsertTx(ctx, tx, effectArgs{Effect: id.String()}, opts); err != nil {
			return err
		}
		if _, err := client.InsertTx(ctx, tx, rearmArgs{Event: id.String()}, opts); err != nil {
			return err
		}
		if _, err := client.InsertTx(ctx, tx, replayArgs{Replay: id.String()}, &river.InsertOpts{MaxAttempts: 1000, Priority: 2, Queue: "replay"}); err != nil {
			return err
		}
		_, err := client.InsertTx(ctx, tx, effectArgs{Effect: id.String()}, &river.InsertOpts{MaxAttempts: 1000, Priority: 4})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var ids []int64
	var reserve, insert pgx.Batch
	b.queue.ReserveTx(&reserve, 4, &ids)
	if err := b.pool.SendBatch(ctx, &reserve).Close(); err != nil {
		t.Fatal(err)
	}
	if len(ids) != 4 || ids[0] == ids[1] {
		t.Fatalf("reserved %v, want four ids", ids)
	}
	b.queue.EnqueueTx(&insert, []inbox.Wake{
		{JobID: ids[0], Kind: inbox.WakeEffect, ID: id}, {JobID: ids[1], Kind: inbox.WakeRearm, ID: id},
		{JobID: ids[2], Kind: inbox.WakeReplay, ID: id}, {JobID: ids[3], Kind: inbox.WakeEffect, ID: id, Last: true},
	})
	if err := b.pool.SendBatch(ctx, &insert).Close(); err != nil {
		t.Fatal(err)
	}

	rows, err := b.pool.Query(ctx, `
		SELECT (to_jsonb(j) - '{id,created_at,scheduled_at}'::text[])::text AS rest,
		    j.created_at = j.scheduled_at AND j.created_at <= now() AS times
		FROM river_job j ORDER BY j.id`)
	if err != nil {
		t.Fatal(err)
	}
	type job struct {
		Rest  string
		Times bool
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[job])
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != 8 {
		t.Fatalf("%d jobs, want 8", len(found))
	}
	for i := range 4 {
		if found[i].Rest != found[i+4].Rest {
			t.Errorf("River writes\n%s\nand we write\n%s", found[i].Rest, found[i+4].Rest)
		}
		if !found[i].Times || !found[i+4].Times {
			t.Errorf("job %d is not due at once", i)
		}
	}
}

// The wake-ups of recorded effects are the same rows, each under the id that its effect has. An effect that is not recorded
// gets none.
func TestQueueWakesWhatIsRecorded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	client, err := river.NewClient(riverpgxv5.New(b.pool), &river.Config{})
	if err != nil {
		t.Fatal(err)
	}
	recorded, other := inbox.NewID(time.Now()), inbox.NewID(time.Now())
	b.exec(`INSERT INTO effect (id, event_id, route_id, route_version, idempotency_key, job_id, state, next_at)
		SELECT $1, gen_random_uuid(), id, 1, 'key', 4711, 'pending', now() FROM route LIMIT 1`, recorded)
	err = pgx.BeginFunc(t.Context(), b.pool, func(tx pgx.Tx) error {
		_, err := client.InsertTx(t.Context(), tx, effectArgs{Effect: recorded.String()}, &river.InsertOpts{MaxAttempts: 1000, Priority: 2})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var insert pgx.Batch
	b.queue.InsertRecordedTx(&insert, []inbox.ID{other, recorded})
	if err := b.pool.SendBatch(t.Context(), &insert).Close(); err != nil {
		t.Fatal(err)
	}
	var jobs, forms, ours int
	err = b.pool.QueryRow(t.Context(), `
		SELECT count(*), count(DISTINCT to_jsonb(j) - '{id,created_at,scheduled_at}'::text[]), count(*) FILTER (WHERE j.id = 4711)
		FROM river_job j WHERE j.scheduled_at = j.created_at`).Scan(&jobs, &forms, &ours)
	if err != nil || jobs != 2 || forms != 1 || ours != 1 {
		t.Errorf("%d jobs in %d forms, %d of them ours, %v; want River's and ours in one form", jobs, forms, ours, err)
	}
}

func TestQueueNotifiesAsRiverDoes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx := t.Context()
	now := time.Now()
	queue := jobs.NewQueue(jobs.QueueConfig{FetchCooldown: time.Second, Now: func() time.Time { return now }})
	var schema string
	if err := b.pool.QueryRow(ctx, `SELECT current_schema()`).Scan(&schema); err != nil {
		t.Fatal(err)
	}
	conn, err := b.pool.Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	if _, err := conn.Exec(ctx, fmt.Sprintf("LISTEN %q", schema+".river_insert")); err != nil {
		t.Fatal(err)
	}
	enqueue := func() int {
		var batch pgx.Batch
		queue.EnqueueTx(&batch, []inbox.Wake{{Kind: inbox.WakeEffect, ID: inbox.NewID(now)}})
		if err := b.pool.SendBatch(ctx, &batch).Close(); err != nil {
			t.Fatal(err)
		}
		return batch.Len()
	}
	if n := enqueue(); n != 2 {
		t.Errorf("the first insert comes in %d statements, want 2: it notifies", n)
	}
	got, err := conn.Conn().WaitForNotification(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if got.Payload != `{"queue": "default"}` {
		t.Errorf("payload %s", got.Payload)
	}
	for range 19 {
		if n := enqueue(); n != 2 {
			t.Errorf("an insert of the first burst comes in %d statements, want 2: it notifies", n)
		}
	}
	now = now.Add(time.Second - time.Nanosecond)
	if n := enqueue(); n != 1 {
		t.Errorf("an insert within the cooldown comes in %d statements, want 1: it does not notify", n)
	}
	now = now.Add(time.Nanosecond)
	if n := enqueue(); n != 2 {
		t.Errorf("an insert after the cooldown comes in %d statements, want 2", n)
	}
	// Behind a COMMIT it is a transaction of its own, whose setting ends with it.
	now = now.Add(2 * time.Second)
	var apart pgx.Batch
	var synchronous string
	sender, err := b.pool.Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer sender.Release()
	apart.Queue("BEGIN")
	queue.InsertTx(&apart, []inbox.Wake{{Kind: inbox.WakeEffect, ID: inbox.NewID(now)}})
	apart.Queue("COMMIT")
	queue.Notify(&apart)
	if err := sender.SendBatch(ctx, &apart).Close(); err != nil {
		t.Fatal(err)
	}
	if err := sender.QueryRow(ctx, `SHOW synchronous_commit`).Scan(&synchronous); err != nil || synchronous != "on" {
		t.Errorf("synchronous_commit is %q afterwards, %v", synchronous, err)
	}
	if apart.Len() != 4 {
		t.Errorf("%d statements, want BEGIN, the insert, COMMIT and the notification", apart.Len())
	}
	for range 21 { // those from before, and this one
		if _, err := conn.Conn().WaitForNotification(ctx); err != nil {
			t.Fatal(err)
		}
	}
	// What goes behind everything is announced by whoever commits it.
	now = now.Add(2 * time.Second)
	var last pgx.Batch
	if queue.EnqueueTx(&last, []inbox.Wake{{Kind: inbox.WakeEffect, ID: inbox.NewID(now), Last: true}}); last.Len() != 1 {
		t.Errorf("a wake-up that is last comes in %d statements, want the insert alone", last.Len())
	}
	var none pgx.Batch
	if queue.EnqueueTx(&none, nil); none.Len() != 0 {
		t.Error("nothing to wake, and yet a statement")
	}
}
