package gate_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/devpg"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/migrations"
)

const standbySchema = "oncegate"

// durable is a gate on a server of its own.
type durable struct {
	*testing.T

	server *devpg.Server
	admin  *pgxpool.Pool
	gate   *gate.Gate
	source *inbox.Source
}

func newDurable(t *testing.T, all ...inbox.Durability) *durable {
	t.Helper()
	server, err := devpg.Start(t.Context(), devpg.Config{Volatile: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop(context.WithoutCancel(t.Context())) })
	if err := migrations.Up(t.Context(), server.DSN(), standbySchema); err != nil {
		t.Fatal(err)
	}
	d := &durable{T: t, server: server, admin: inboxtest.Open(t, server.DSN(), standbySchema, session.PoolAdmin, 4)}
	d.source = inboxtest.Source(t, d.admin, "stripe")
	pool, err := session.OpenPool(t.Context(), server.DSN(), standbySchema, session.PoolGate, 8, session.Commits(all[len(all)-1].SynchronousCommit()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if d.gate, err = gate.New(gate.Config{
		Pool: pool, Clock: inboxtest.Clock(t, d.admin), Enqueuer: jobs.NewQueue(jobs.QueueConfig{}), Deadline: 3 * time.Second, Durabilities: all,
	}); err != nil {
		t.Fatal(err)
	}
	if err := d.gate.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.gate.Stop(context.WithoutCancel(t.Context())) })
	return d
}

// names sets synchronous_standby_names and waits until connections know of it.
func (d *durable) names(names string) {
	d.Helper()
	for _, sql := range []string{`ALTER SYSTEM SET synchronous_standby_names = '` + names + `'`, `SELECT pg_reload_conf()`} {
		if _, err := d.admin.Exec(d.Context(), sql); err != nil {
			d.Fatal(err)
		}
	}
	inboxtest.Until(d, "the setting to be read", func() bool {
		var now string
		return d.admin.QueryRow(d.Context(), `SHOW synchronous_standby_names`).Scan(&now) == nil && now == names
	})
}

// accept delivers one event.
func (d *durable) accept(durability inbox.Durability, id string) (inbox.Outcome, error) {
	source := *d.source
	source.Durability = durability
	receipt, err := d.gate.Accept(d.Context(), inboxtest.Admission(&source, id))
	if err != nil {
		return "", err
	}
	return receipt.Items[0].Outcome, nil
}

func (d *durable) expect(durability inbox.Durability, id string, want inbox.Outcome) {
	d.Helper()
	if got, err := d.accept(durability, id); err != nil || got != want {
		d.Errorf("%s under %s: %q, %v, want %s", id, durability, got, err, want)
	}
}

// waiting waits until n commits wait for a standby.
func (d *durable) waiting(n int) {
	d.Helper()
	inboxtest.Until(d, "commits to wait for a standby", func() bool {
		var waiting int
		err := d.admin.QueryRow(d.Context(), `SELECT count(*) FROM pg_stat_activity WHERE application_name = 'oncegate gate' AND wait_event = 'SyncRep'`).Scan(&waiting)
		return err == nil && waiting >= n
	})
}

// TestQuorumNeedsANamedStandby: without one PostgreSQL waits for nobody, and says nothing.
func TestQuorumNeedsANamedStandby(t *testing.T) {
	t.Parallel()
	d := newDurable(t, inbox.DurabilityQuorum)
	if _, err := d.accept(inbox.DurabilityQuorum, "evt_1"); !errors.Is(err, gate.ErrNoStandby) || !errors.Is(err, gate.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable with ErrNoStandby", err)
	}
	if err := d.gate.Durable(); !errors.Is(err, gate.ErrNoStandby) {
		t.Errorf("the gate counts as durable: %v", err)
	}
	standby, err := d.server.StartStandby(t.Context(), "standby")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = standby.Stop(context.WithoutCancel(t.Context())) })
	d.names("standby")
	d.expect(inbox.DurabilityQuorum, "evt_1", inbox.Duplicate) // it was committed, and is acknowledged now
	d.expect(inbox.DurabilityQuorum, "evt_2", inbox.Recorded)
	d.gate.Committed(time.Now(), true) // as the commit probe reports it
	if err := d.gate.Durable(); err != nil {
		t.Errorf("the gate does not count as durable: %v", err)
	}
}

// TestAWeakerDurabilityWaitsForNoStandby: deliveries of a class with local durability are acknowledged while those of another class
// wait for a standby that never answers.
func TestAWeakerDurabilityWaitsForNoStandby(t *testing.T) {
	t.Parallel()
	d := newDurable(t, inbox.DurabilityLocal, inbox.DurabilityQuorum)
	d.names("ghost")
	hanging := make(chan error, 2)
	for _, id := range []string{"quorum_1", "quorum_2"} { // as many as a durability has flushers
		go func() { _, err := d.accept(inbox.DurabilityQuorum, id); hanging <- err }()
	}
	d.waiting(1)
	for _, id := range []string{"local_1", "local_2", "local_3"} {
		d.expect(inbox.DurabilityLocal, id, inbox.Recorded)
	}
	d.expect(inbox.DurabilityLocal, "local_1", inbox.Duplicate)
	for range cap(hanging) {
		if err := <-hanging; !errors.Is(err, gate.ErrUnavailable) {
			t.Errorf("a delivery under quorum was acknowledged without a standby: %v", err)
		}
	}
	if err := d.gate.Ready(); err != nil {
		t.Errorf("the gate can acknowledge some deliveries and is not ready: %v", err)
	}
}

// TestAnUnknownDurabilityIsNotWeaker: a durability that the gate was not told of is committed as the next stricter one.
func TestAnUnknownDurabilityIsNotWeaker(t *testing.T) {
	t.Parallel()
	d := newDurable(t, inbox.DurabilityLocal, inbox.DurabilityQuorum)
	for _, durability := range []inbox.Durability{inbox.DurabilityApply, inbox.DurabilityServer, ""} {
		if _, err := d.accept(durability, "evt_"+string(durability)); !errors.Is(err, gate.ErrNoStandby) {
			t.Errorf("%q got %v, want ErrNoStandby", durability, err)
		}
	}
}

// TestEmptyingTheNamesAcknowledgesNothing: PostgreSQL then ends the waits of all commits as if a standby had answered.
func TestEmptyingTheNamesAcknowledgesNothing(t *testing.T) {
	t.Parallel()
	for _, durability := range []inbox.Durability{inbox.DurabilityQuorum, inbox.DurabilityApply} {
		t.Run(string(durability), func(t *testing.T) {
			t.Parallel()
			d := newDurable(t, durability)
			d.names("ghost")
			answer := make(chan error, 1)
			go func() { _, err := d.accept(durability, "evt_1"); answer <- err }()
			d.waiting(1)
			d.names("")
			if err := <-answer; !errors.Is(err, gate.ErrNoStandby) {
				t.Errorf("got %v, want ErrNoStandby", err)
			}
		})
	}
}

// TestApplyIsSeenAtTheStandby at once, for as long as it takes to replay.
func TestApplyIsSeenAtTheStandby(t *testing.T) {
	t.Parallel()
	d := newDurable(t, inbox.DurabilityServer, inbox.DurabilityApply)
	standby, err := d.server.StartStandby(t.Context(), "standby")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = standby.Stop(context.WithoutCancel(t.Context())) })
	d.names("standby")
	there := inboxtest.Open(t, standby.DSN(), standbySchema, session.PoolList, 2)
	for _, sql := range []string{"SELECT pg_wal_replay_pause()"} {
		if _, err := there.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	d.expect(inbox.DurabilityServer, "received", inbox.Recorded) // the standby has it on its disk
	answer := make(chan error, 1)
	go func() { _, err := d.accept(inbox.DurabilityApply, "applied"); answer <- err }()
	d.waiting(1)
	if _, err := there.Exec(t.Context(), "SELECT pg_wal_replay_resume()"); err != nil {
		t.Fatal(err)
	}
	if err := <-answer; err != nil {
		t.Fatal(err)
	}
	var seen int
	if err := there.QueryRow(t.Context(), "SELECT count(*) FROM inbox_event").Scan(&seen); err != nil || seen != 2 {
		t.Errorf("the standby shows %d events, %v, want 2", seen, err)
	}
}
