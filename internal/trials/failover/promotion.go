package failover

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oncegate/oncegate/internal/devpg"
	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/internal/trials/lab"
)

// PromotionOptions say what a campaign of promotions does.
type PromotionOptions struct {
	// Promotions is their number, and Seed decides the order of the faults before them.
	Promotions int
	Seed       uint64

	// Durability is database.durability of the processes.
	Durability string

	// HAProxy is the program through which the processes reach the primary. If it is empty, their url names all three servers.
	HAProxy string

	// Progress reports each promotion; it may be nil.
	Progress func(format string, args ...any)
}

// promotionFaults are what happens to a primary before a standby is promoted.
var promotionFaults = []Fault{Kill, Freeze, Switchover}

// anyOne has a commit under server or quorum wait for one of the two standbys.
const anyOne = "ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (*)'"

// trio is three servers of which one is the primary.
type trio struct {
	*campaign

	third *devpg.Server // the standby that is not c.standby
	lead  leader
}

// RunPromotions kills, freezes or shuts down the primary of three servers under load, and promotes the standby that has received more. The
// other standby follows the new primary, and the former primary comes back as a standby.
func RunPromotions(ctx context.Context, w *lab.World, o PromotionOptions) (_ *Result, err error) {
	began := time.Now()
	c := &trio{campaign: newCampaign(w, "promotion", &Options{
		Cycles: o.Promotions, Seed: o.Seed, Synchronous: o.Durability == "quorum", Progress: o.Progress,
	})}
	way := "-through hosts"
	if o.HAProxy != "" {
		way = "-through haproxy"
	}
	defer func() {
		err = c.End(err, fmt.Sprintf("./scripts/failover -promotions %d -durability %s %s -seed %d", o.Promotions, o.Durability, way, o.Seed))
	}()
	if err := c.prepare(ctx, &o); err != nil {
		return nil, err
	}
	c.OnEnd(func() error { c.stopSending(); c.sending.Wait(); return nil })
	draw := rig.Rounds(c.random, promotionFaults)
	for i := range o.Promotions {
		fault, began := draw(), time.Now()
		pause, err := c.promotion(ctx, fault)
		if err != nil {
			return nil, fmt.Errorf("promotion %d, %s: %w", i+1, fault, err)
		}
		c.summary.Cycles++
		c.summary.Pauses[fault] = append(c.summary.Pauses[fault], pause)
		c.Progress("promotion %d of %d: %s, acknowledged again after %.1f s (%.1f s)", i+1, o.Promotions, fault, pause.Seconds(), time.Since(began).Seconds())
	}
	for _, n := range c.nodes {
		if !n.Running() {
			return nil, fmt.Errorf("a process has ended: %w", n.Err())
		}
	}
	r := &Result{}
	if r.Violations, err = c.check(ctx); err != nil {
		return nil, err
	}
	c.summary.Violations, c.summary.Elapsed = len(r.Violations), time.Since(began)
	r.Summary = c.summary
	return r, nil
}

// prepare makes the three servers, the way to them, two processes and the senders.
func (c *trio) prepare(ctx context.Context, o *PromotionOptions) (err error) {
	if err := c.prepareTarget(ctx); err != nil {
		return err
	}
	if c.standby, err = c.primary.StartStandby(ctx, "standby"); err != nil {
		return err
	}
	if c.third, err = c.primary.StartStandby(ctx, "standby"); err != nil {
		return err
	}
	third := c.third
	c.OnEnd(func() error { return c.endThird(third) })
	servers := []*devpg.Server{c.primary, c.standby, c.third}
	for _, s := range servers {
		if err := lab.Execute(ctx, s, anyOne, "SELECT pg_reload_conf()"); err != nil {
			return err
		}
	}
	if err := c.follow(ctx); err != nil {
		return err
	}
	c.lead.is(c.primary)
	address, err := c.address(ctx, o, servers)
	if err != nil {
		return err
	}
	for i := range 2 {
		n, err := c.Serve(ctx, rig.NodeConfig{Name: strconv.Itoa(i), DSN: address, Env: []string{"ONCEGATE_DURABILITY=" + o.Durability}})
		if err != nil {
			return err
		}
		c.nodes = append(c.nodes, n)
	}
	sending, stop := context.WithCancel(ctx)
	c.stopSending = stop
	for i := range senders {
		c.sending.Go(func() { c.send(sending, i) })
	}
	return nil
}

// endThird stops the server that [campaign.endServers] does not know, whichever part it plays at the end.
func (c *trio) endThird(third *devpg.Server) error {
	all := []*devpg.Server{c.primary, c.standby, c.third}
	var errs []error
	for _, s := range all {
		if s != nil && lab.Running(s) {
			errs = append(errs, s.Thaw())
		}
	}
	// The world stops its own server, and endServers the other one of primary and standby.
	c.primary = c.Server
	others := slices.DeleteFunc(all, func(s *devpg.Server) bool { return s == nil || s == c.Server || s == third })
	if len(others) > 0 {
		c.standby = others[0]
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return errors.Join(append(errs, third.Stop(ctx))...)
}

// address is how the processes reach the primary.
func (c *trio) address(ctx context.Context, o *PromotionOptions, servers []*devpg.Server) (string, error) {
	address, err := url.Parse(c.primary.DSN())
	if err != nil {
		return "", fmt.Errorf("reading an address: %w", err)
	}
	if o.HAProxy != "" {
		address.Host, err = c.startProxy(ctx, o.HAProxy, servers)
		return address.String(), err
	}
	dsns := make([]string, len(servers))
	for i, s := range servers {
		dsns[i] = s.DSN()
	}
	return lab.JoinHosts(dsns...)
}

// promotion makes one fault and promotes a standby. It returns for how long nothing was acknowledged.
func (c *trio) promotion(ctx context.Context, fault Fault) (time.Duration, error) {
	former := c.primary
	if !rig.Pause(ctx, warmUp/2) {
		return 0, ctx.Err()
	}
	at := time.Now()
	begin := map[Fault]func() error{Kill: former.Crash, Freeze: former.Freeze, Switchover: func() error { return former.ShutDown(ctx) }}[fault]
	if err := begin(); err != nil {
		return 0, err
	}
	next, other, err := c.furthest(ctx)
	if err != nil {
		return 0, err
	}
	if err := next.Promote(ctx); err != nil {
		return 0, err
	}
	c.lead.is(next)
	promoted := time.Now()
	if err := repoint(ctx, other, next); err != nil {
		return 0, err
	}
	if err := rig.Until(ctx, waitLimit, "acknowledgements", func() (bool, error) { n, _ := c.seen.since(promoted); return n >= enough, nil }); err != nil {
		return 0, err
	}
	_, first := c.seen.since(promoted)
	if fault == Freeze {
		if err := errors.Join(former.Thaw(), former.Crash()); err != nil {
			return 0, err
		}
	}
	if err := former.Rejoin(ctx, next, "standby"); err != nil {
		return 0, err
	}
	c.primary, c.standby, c.third = next, other, former
	return first.Sub(at), c.follow(ctx)
}

// furthest returns the standby that has received more of the log, which has every commit that one of the two has confirmed, and the other.
func (c *trio) furthest(ctx context.Context) (next, other *devpg.Server, err error) {
	var received [2]uint64
	for i, s := range []*devpg.Server{c.standby, c.third} {
		conn, err := pgx.Connect(ctx, s.DSN())
		if err != nil {
			return nil, nil, fmt.Errorf("connecting: %w", err)
		}
		var text string
		err = conn.QueryRow(ctx, "SELECT pg_last_wal_receive_lsn()::text").Scan(&text)
		if err = errors.Join(err, conn.Close(ctx)); err != nil {
			return nil, nil, fmt.Errorf("asking a standby for its place: %w", err)
		}
		if received[i], err = session.ParseLSN(text); err != nil {
			return nil, nil, err
		}
	}
	if received[1] > received[0] {
		return c.third, c.standby, nil
	}
	return c.standby, c.third, nil
}

// repoint makes a standby follow another primary.
func repoint(ctx context.Context, standby, primary *devpg.Server) error {
	address, err := url.Parse(primary.DSN())
	if err != nil {
		return fmt.Errorf("reading an address: %w", err)
	}
	password, _ := address.User.Password()
	info := fmt.Sprintf("host=%s port=%s user=%s password=%s application_name=standby", address.Hostname(), address.Port(), address.User.Username(), password)
	return lab.Execute(ctx, standby, "ALTER SYSTEM SET primary_conninfo = '"+info+"'", "SELECT pg_reload_conf()")
}

const streamingTwo = `SELECT count(*) = 2 FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = 'quorum'`

// follow waits until both standbys stream.
func (c *trio) follow(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, c.primary.DSN())
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return rig.Poll(ctx, 50*time.Millisecond, waitLimit, "both standbys to stream", func() (both bool, err error) {
		err = conn.QueryRow(ctx, streamingTwo).Scan(&both)
		return both, err
	})
}
