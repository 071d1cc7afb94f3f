package failover

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/internal/devpg"
	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/trials/lab"
)

// Recovery is what a recovery to a point in time left.
type Recovery struct {
	// Sent is how many effects happened after the point, and Repeated how many of them happened again.
	Sent, Repeated int

	// Restored is how many of them are indeterminate with the reason restored, and Later how many events that came afterwards were
	// carried out.
	Restored, Later int
}

const countRestored = `SELECT count(*) FROM effect e JOIN route r ON r.id = e.route_id
WHERE r.name = 'once' AND e.state = 'indeterminate' AND e.reason = 'restored'`

// RunRecovery takes a base backup, records events, carries their effects out, and recovers the database to the time between the two. No
// process remembers anything then.
func RunRecovery(ctx context.Context, w *lab.World, events int) (_ *Recovery, err error) {
	c := newCampaign(w, "recovery", &Options{})
	defer func() { err = c.End(err, "./scripts/failover -synchronous 0 -asynchronous 0") }()
	if err := c.prepareTarget(ctx); err != nil {
		return nil, err
	}
	serve := func(role, dsn string) (*rig.Node, error) { return c.Serve(ctx, rig.NodeConfig{DSN: dsn, Role: role}) }
	receiver, err := serve("receive", c.primary.DSN())
	if err != nil {
		return nil, err
	}
	deliver := func(n *rig.Node, id string) error {
		body := fmt.Appendf(nil, `{"id":"%s","object":"event","created":%d,"type":"invoice.paid"}`, id, time.Now().Unix())
		status, err := rig.Deliver(ctx, rig.NewClient(1, 10*time.Second), n.SourceURL("stripe"), secret, body)
		if err == nil && status/100 != 2 {
			err = fmt.Errorf("delivering %s: answered %d", id, status)
		}
		return err
	}
	if c.standby, err = c.primary.Backup(ctx); err != nil {
		return nil, err
	}
	for i := range events {
		if err := deliver(receiver, fmt.Sprintf("evt_%d", i)); err != nil {
			return nil, err
		}
	}
	point, err := databaseTime(ctx, c.primary)
	if err != nil {
		return nil, err
	}
	worker, err := serve("work", c.primary.DSN())
	if err != nil {
		return nil, err
	}
	heard := func(n int) error {
		return rig.Until(ctx, waitLimit, "the effects", func() (bool, error) {
			return len(c.seen.once.Requests()) == n, nil
		})
	}
	if err := errors.Join(heard(events), receiver.Kill(), worker.Kill(), c.primary.Crash()); err != nil {
		return nil, err
	}
	if err := c.standby.Recover(ctx, c.primary, point); err != nil {
		return nil, err
	}
	node, err := serve("", c.standby.DSN())
	if err != nil {
		return nil, err
	}
	// The first event that comes is only carried out after everything else was looked through.
	if err := errors.Join(deliver(node, "evt_later"), heard(events+1)); err != nil {
		return nil, err
	}
	out := &Recovery{}
	for event, requests := range c.seen.once.Requests() {
		switch {
		case event == "evt_later":
			out.Later += requests.Complete
		default:
			out.Sent++
			if requests.Complete > 1 {
				out.Repeated++
			}
		}
	}
	db, err := rig.Connect(ctx, c.standby.DSN(), c.Schema)
	if err != nil {
		return nil, err
	}
	defer db.Close(context.WithoutCancel(ctx))
	if err := db.QueryRow(ctx, countRestored).Scan(&out.Restored); err != nil {
		return nil, fmt.Errorf("counting: %w", err)
	}
	return out, nil
}

func databaseTime(ctx context.Context, server *devpg.Server) (now time.Time, err error) {
	conn, err := pgx.Connect(ctx, server.DSN())
	if err != nil {
		return now, fmt.Errorf("asking for the time: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now); err != nil {
		return now, fmt.Errorf("asking for the time: %w", err)
	}
	return now, nil
}
