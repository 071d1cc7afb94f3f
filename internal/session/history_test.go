package session_test

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/internal/devpg"
	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/session"
)

// TestNoSessionIsUsedThatIsBehind takes a process through an asynchronous failover: the former primary goes on answering, is frozen,
// thaws and starts again.
func TestNoSessionIsUsedThatIsBehind(t *testing.T) { //nolint:tparallel // the subtests follow each other
	t.Parallel()
	ctx := t.Context()
	former, err := devpg.Start(ctx, devpg.Config{Volatile: true})
	if err != nil {
		t.Fatal(err)
	}
	stop := func(s *devpg.Server) {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		_ = s.Thaw()
		if err := s.Stop(ctx); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(func() { stop(former) })
	next, err := former.StartStandby(ctx, "next")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(next) })

	// A connection may take a minute, so that whoever tries one host after the other is noticed.
	both := hosts(t, former, next) + "&connect_timeout=60"
	var guard session.Guard
	history := guard.History()
	open := func(dsn string, role session.PoolRole, guard *session.Guard, options ...session.PoolOption) *pgxpool.Pool {
		t.Helper()
		pool, err := session.OpenPool(ctx, dsn, "public", role, 2, append([]session.PoolOption{session.GuardedBy(guard)}, options...)...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		return pool
	}
	pools := map[string]*pgxpool.Pool{
		"gate": open(both, session.PoolGate, &guard), "work": open(both, session.PoolWork, &guard), "queue": open(both, session.PoolQueue, &guard),
		"admin": open(both, session.PoolAdmin, &guard), "list": open(both, session.PoolList, &guard),
		"list_url": open(both, session.PoolList, new(session.Guard), session.FencedBy(history), session.AnyHost()),
		"one host": open(former.DSN(), session.PoolAdmin, &guard),
	}
	taken := map[string]*pgxpool.Conn{}
	for name, pool := range pools {
		for _, conn := range pool.AcquireAllIdle(ctx) {
			conn.Release()
		}
		if got := portOf(t, pool); got != port(former) {
			t.Fatalf("the %s pool is on port %s, and the primary on %s", name, got, port(former))
		}
		if taken[name], err = pool.Acquire(ctx); err != nil {
			t.Fatal(err)
		}
	}
	own, err := session.Connect(ctx, pools["work"])
	if err != nil {
		t.Fatal(err)
	}
	hijacked := taken["admin"].Hijack() // as prune has it
	delete(taken, "admin")
	if err := next.Promote(ctx); err != nil {
		t.Fatal(err)
	}

	t.Run("the former primary answers", func(t *testing.T) { //nolint:paralleltest // see above
		states := history.Look(ctx, pools["gate"])
		if len(states) != 2 || states[1].Err != nil || states[1].Position.Timeline != 2 || history.Timeline() != 2 {
			t.Fatalf("looking found %+v, and timeline %d is remembered", states, history.Timeline())
		}
		if states = history.Look(ctx, pools["gate"]); !errors.Is(states[0].Err, session.ErrBehind) {
			t.Errorf("the former primary is %+v, which is not behind", states[0])
		}
		// What is under way there ends with an error, and not with an answer.
		for name, conn := range taken {
			if _, err := conn.Exec(ctx, "SELECT 1"); err == nil {
				t.Errorf("a session of the %s pool that was in use still works on the former primary", name)
			}
			conn.Release()
		}
		for name, conn := range map[string]*pgx.Conn{"of a replay": own, "of prune": hijacked} {
			if _, err := conn.Exec(ctx, "SELECT 1"); err == nil {
				t.Errorf("the connection %s still works on the former primary", name)
			}
			_ = conn.Close(ctx)
		}
		moved(t, pools, port(next))
	})

	t.Run("a process that knows nothing sees both", func(t *testing.T) { //nolint:paralleltest // see above
		if got := portOf(t, open(both, session.PoolAdmin, new(session.Guard))); got != port(next) {
			t.Errorf("it works on port %s, and the primary is %s", got, port(next))
		}
	})

	t.Run("the former primary is frozen and thaws", func(t *testing.T) { //nolint:paralleltest // see above
		if err := former.Freeze(); err != nil {
			t.Fatal(err)
		}
		timed, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		fresh := open(both, session.PoolGate, new(session.Guard))
		if _, err := fresh.Exec(timed, "SELECT 1"); err != nil {
			t.Errorf("with a frozen first host: %v", err)
		}
		pools["gate"].Reset()
		alone := pools["one host"]
		delete(pools, "one host")
		moved(t, pools, port(next))
		pools["one host"] = alone
		if err := former.Thaw(); err != nil {
			t.Fatal(err)
		}
		moved(t, pools, port(next))
	})

	t.Run("the former primary starts again", func(t *testing.T) { //nolint:paralleltest // see above
		if err := former.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := former.Restart(ctx); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(both, port(former)) { // it has its port again
			for _, pool := range pools {
				pool.Reset()
			}
			moved(t, pools, port(next))
		}
	})

	t.Run("another cluster", func(t *testing.T) { //nolint:paralleltest // see above
		if err := history.Judge(session.Position{System: 1, Timeline: 9}, history.Witness()); !errors.Is(err, session.ErrOtherSystem) {
			t.Errorf("another cluster is judged %v", err)
		}
	})

	t.Run("a server that was set back", func(t *testing.T) { //nolint:paralleltest // see above
		var text string
		if err := pools["gate"].QueryRow(ctx, "SELECT pg_current_wal_insert_lsn()::text").Scan(&text); err != nil {
			t.Fatal(err)
		}
		lsn, err := session.ParseLSN(text)
		if err != nil || session.FormatLSN(lsn) != text {
			t.Fatalf("%s is read as %s: %v", text, session.FormatLSN(lsn), err)
		}
		history.Remember(session.Witness{Timeline: 2, LSN: lsn + 1<<30, At: time.Now()})
		pools["gate"].Reset()
		if _, err := pools["gate"].Exec(ctx, "SELECT 1"); !errors.Is(err, session.ErrBehind) {
			t.Errorf("a server that lacks commits that were seen is used: %v", err)
		}
	})
}

// moved fails unless each pool works on a port, or refuses its only host.
func moved(t *testing.T, pools map[string]*pgxpool.Pool, want string) {
	t.Helper()
	for name, pool := range pools {
		if name == "one host" {
			if _, err := pool.Exec(t.Context(), "SELECT 1"); !errors.Is(err, session.ErrBehind) {
				t.Errorf("a pool that only knows the former primary: %v", err)
			}
			continue
		}
		if got := portOf(t, pool); got != want {
			t.Errorf("the %s pool is on port %s, and the primary on %s", name, got, want)
		}
	}
}

func portOf(t *testing.T, pool *pgxpool.Pool) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var port string
	if err := pool.QueryRow(ctx, "SELECT inet_server_port()::text").Scan(&port); err != nil {
		t.Fatal(err)
	}
	return port
}

func port(s *devpg.Server) string {
	u, err := url.Parse(s.DSN())
	if err != nil {
		return err.Error()
	}
	return u.Port()
}

// hosts is the url of several servers with one password.
func hosts(t *testing.T, servers ...*devpg.Server) string {
	t.Helper()
	u, err := url.Parse(servers[0].DSN())
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, s := range servers {
		all = append(all, net.JoinHostPort("127.0.0.1", port(s)))
	}
	u.Host = strings.Join(all, ",")
	return u.String() + "&target_session_attrs=read-write"
}

// TestHistoryComparesPositions in random order: what was refused once is refused for good.
func TestHistoryComparesPositions(t *testing.T) {
	t.Parallel()
	random := rig.Random(rig.DrawSeed(0), 0)
	for range 200 {
		var h session.History
		var highest uint32
		var witness session.Witness
		for range 30 {
			p := session.Position{System: 7, Timeline: 1 + random.Uint32N(4), LSN: random.Uint64N(100), Standby: random.IntN(5) == 0}
			if random.IntN(10) == 0 {
				p.System = 8
			}
			want := error(nil)
			switch {
			case highest != 0 && p.System != 7:
				want = session.ErrOtherSystem
			case p.Standby:
			case p.Timeline < highest, p.Timeline == witness.Timeline && p.LSN < witness.LSN:
				want = session.ErrBehind
			}
			if highest == 0 && (p.System != 7 || p.Standby) {
				continue
			}
			if got := h.Judge(p, h.Witness()); !errors.Is(got, want) || want == nil && got != nil {
				t.Fatalf("%+v after timeline %d and %+v is judged %v, not %v", p, highest, witness, got, want)
			}
			if want != nil || p.Standby {
				continue
			}
			highest = p.Timeline
			if random.IntN(2) == 0 {
				witness = session.Witness{Timeline: p.Timeline, LSN: p.LSN}
				h.Remember(witness)
			}
		}
	}
}
