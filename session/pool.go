package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"regexp"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// PoolRole says what a pool is for; it decides the server-side timeouts and is
// shown as the connection's application name.
type PoolRole string

const (
	// PoolGate commits admissions. Its connections have a lock timeout of 1 s and
	// no statement timeout, since that would also hit a COMMIT that waits for a
	// standby; a stalled server is noticed by the gate's own deadline. They never
	// send a cancel request, for the same reason.
	PoolGate PoolRole = "gate"
	// PoolWork is the effect worker's.
	PoolWork PoolRole = "work"
	// PoolQueue is River's.
	PoolQueue PoolRole = "queue"
	// PoolAdmin is for everything a person asks for.
	PoolAdmin PoolRole = "admin"
	// PoolList is for lists and for what is shown: nothing can be written through it, no
	// statement of it runs longer than 2 s, and none reads a whole table where an index
	// leads to what is asked for. 2 to 4 connections are enough, so that lists take little
	// from deliveries, whoever asks for them.
	PoolList PoolRole = "list"
)

// ErrSchemaName is returned by [OpenPool] for a schema name that is not a plain
// lower-case identifier.
var ErrSchemaName = errors.New("schema name must match [a-z][a-z0-9_]{0,62}")

var schemaName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)

// checkSchemaName returns [ErrSchemaName] unless name is a plain lower-case identifier.
func checkSchemaName(name string) error {
	if !schemaName.MatchString(name) {
		return fmt.Errorf("schema %q: %w", name, ErrSchemaName)
	}
	return nil
}

// settings are those of each role's connections; what a role does not name stays as the
// server has it.
func (r PoolRole) settings() Settings {
	switch r {
	case PoolGate:
		return Settings{
			"lock_timeout":                        "1000",
			"statement_timeout":                   "0",
			"idle_in_transaction_session_timeout": "10000",
			// Every statement of the gate finds its rows through an index, and must go
			// on doing so on a table that grows a thousandfold between two ANALYZEs.
			"enable_seqscan":   "off",
			"enable_hashjoin":  "off",
			"enable_mergejoin": "off",
			"plan_cache_mode":  "force_generic_plan",
		}
	case PoolWork:
		return Settings{
			"lock_timeout":                        "5000",
			"idle_in_transaction_session_timeout": "60000",
			// As for the gate. An effect that acts inside the database has the planner
			// back for its own transaction.
			"enable_seqscan":   "off",
			"enable_hashjoin":  "off",
			"enable_mergejoin": "off",
			// What is read in an index's order is read as far as it is wanted.
			"enable_bitmapscan": "off",
			"plan_cache_mode":   "force_generic_plan",
		}
	case PoolQueue:
		return Settings{
			"lock_timeout": "5000",
			// River's statements and the sweeper's are short. Cut off at a COMMIT that waits
			// for a standby, they only wake somebody twice.
			"statement_timeout":                   "60000",
			"idle_in_transaction_session_timeout": "60000",
			// River's statements join lists to its table. Planned once, on the empty table a
			// process starts with, each fetch from a backlog took half a second: the plan
			// walked the table for every job.
			"plan_cache_mode": "force_custom_plan",
			// The table is small and hot, and grows a thousandfold between two ANALYZEs: jobs
			// are looked up one by one.
			"enable_seqscan":   "off",
			"random_page_cost": "1.1",
		}
	case PoolList:
		return Settings{
			"default_transaction_read_only":       "on",
			"lock_timeout":                        "1000",
			"statement_timeout":                   "2000",
			"idle_in_transaction_session_timeout": "10000",
			// A list is read window by window, in the order of an index. Sorting or hashing a
			// table for it looks cheaper where the statistics are old.
			"enable_seqscan":    "off",
			"enable_bitmapscan": "off",
			"enable_hashjoin":   "off",
			"enable_mergejoin":  "off",
			"enable_sort":       "off",
			// Workers would look at more rows than the page needs, and take them from deliveries' processors.
			"max_parallel_workers_per_gather": "0",
		}
	default:
		return Settings{"lock_timeout": "5000", "statement_timeout": "60000", "idle_in_transaction_session_timeout": "60000"}
	}
}

// PoolOption changes how a pool is made.
type PoolOption func(*poolOptions)

type poolOptions struct {
	settings Settings
	guard    *Guard
	history  *History
	anyHost  bool
	effects  bool
}

// leastIdle is the least time after which the server ends an idle transaction: a
// process may stand still for a moment.
const leastIdle = 5 * time.Second

// VanishAfter has the server end a transaction whose process has said nothing for that
// long, at least 5 s, so that what a vanished host had locked is free again. The lease
// of claims is the time to give it: by then others may take over what it was doing.
func VanishAfter(lease time.Duration) PoolOption {
	return func(o *poolOptions) {
		o.settings["idle_in_transaction_session_timeout"] = milliseconds(max(lease, leastIdle))
	}
}

// GuardedBy has the pool hand out no connections while the guard knows that a pooler
// shares sessions, and none that the guard's [History] refuses. A pool without the option has its own guard.
func GuardedBy(guard *Guard) PoolOption {
	return func(o *poolOptions) { o.guard, o.history = guard, guard.History() }
}

// FencedBy has the pool hand out no connections that history refuses. The pool keeps its own guard. Pass FencedBy after [GuardedBy],
// because both set the history.
func FencedBy(history *History) PoolOption {
	return func(o *poolOptions) { o.history = history }
}

// AnyHost has a url with several hosts mean what its target_session_attrs says, instead of the primary: lists may be read from a
// standby.
func AnyHost() PoolOption {
	return func(o *poolOptions) { o.anyHost = true }
}

// CarriesOut says that effects are carried out over the pool: it hands out no session before the database's history is decided;
// see [History.Decide].
func CarriesOut() PoolOption {
	return func(o *poolOptions) { o.effects = true }
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

func seconds(d time.Duration) string { return strconv.FormatInt(int64(d/time.Second), 10) }

// OpenPool opens a pool on the database of url whose unqualified names are
// those of schema. maxConns is the size of the pool; 0 leaves what the url says.
// It connects lazily: an unreachable database is reported by first use.
//
// Each connection sets up its session when it is made and has read back what it is set
// to: one that differs is refused ([session.SettingError]), and so is every connection
// while a pooler is seen to share sessions ([session.ErrShared]).
func OpenPool(ctx context.Context, url, schema string, role PoolRole, maxConns int32, options ...PoolOption) (*pgxpool.Pool, error) {
	return OpenPoolWithin(ctx, url, schema, role, maxConns, 0, options...)
}

// OpenPoolWithin is [OpenPool] for a pool none of whose statements waits longer than
// silence for a sign of the server, whether or not its caller has a deadline; 0 is no
// bound. What takes longer is cut off, so it must be more than any statement needs.
func OpenPoolWithin(ctx context.Context, url, schema string, role PoolRole, maxConns int32, silence time.Duration, options ...PoolOption) (*pgxpool.Pool, error) {
	if err := checkSchemaName(schema); err != nil {
		return nil, err
	}
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		// pgx's message may quote the url, password included.
		return nil, errors.New("reading the database url: not a PostgreSQL connection string; use postgres://user:password@host:5432/database")
	}
	if maxConns > 0 {
		cfg.MaxConns = maxConns
	}
	guard := new(Guard)
	o := poolOptions{settings: role.settings(), guard: guard, history: guard.History()}
	maps.Copy(o.settings, Settings{
		"search_path": schema,
		// Whoever does not say so makes no stream of a route whose sequence keys are hashed
		// under a secret; see migration 28.
		"oncegate.sequence_secrets": "known",
		// Whoever does not say so removes no labels with an event, which a trigger then does;
		// see migrations 34 and 36.
		"oncegate.labels": "batched",
		// The server notices as well that this machine has vanished, and lets go of what it
		// has locked.
		"client_connection_check_interval": milliseconds(checkInterval),
		"tcp_keepalives_idle":              seconds(keepaliveIdle),
		"tcp_keepalives_interval":          seconds(keepaliveInterval),
		"tcp_keepalives_count":             strconv.Itoa(keepaliveCount),
		"tcp_user_timeout":                 milliseconds(userTimeout),
		// Whatever the database or the role is set to: an acknowledgement, and the mark
		// that a send began, must be on disk, and on the standbys that it waits for.
		"synchronous_commit": "on",
	})
	for _, option := range options {
		option(&o)
	}
	cfg.ConnConfig.RuntimeParams["application_name"] = "oncegate " + string(role)
	// The pool must not stay pinned to a server that has been demoted.
	cfg.MaxConnLifetime = 30 * time.Minute
	cfg.MaxConnLifetimeJitter = time.Duration(rand.Int64N(int64(5 * time.Minute))) //nolint:gosec // jitter is no secret
	cfg.PingTimeout = cmp.Or(cfg.PingTimeout, pingTimeout)
	cfg.ConnConfig.ConnectTimeout = cmp.Or(cfg.ConnConfig.ConnectTimeout, connectTimeout)
	w := &watcher{silence: silence, history: o.history}
	w.now = time.Now
	cfg.ConnConfig.DialFunc = w.dial
	// After the timeout is known, by which a session is set up.
	Prepare(cfg.ConnConfig, o.settings, o.history)
	o.guard.watch(cfg, cfg.PingTimeout, fence{history: o.history, work: o.effects, reads: role == PoolList})
	renewStale(cfg.ConnConfig, w.stale)
	cfg.BeforeConnect = func(ctx context.Context, conn *pgx.ConnConfig) error {
		toHost := o.history.Direct
		if o.anyHost {
			toHost = o.history.leaveOut
		}
		if err := toHost(ctx, conn); err != nil {
			return err
		}
		if role == PoolGate {
			neverCancel(conn)
			conn.OnNotice = rememberWarning
		}
		return nil
	}
	if role != PoolList {
		cfg.AfterConnect = o.history.begin
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("opening the %s pool: %w", role, err)
	}
	w.pool.Store(pool)
	return pool, nil
}

// neverCancel makes a connection refuse to dial again once it stands. pgx sends
// a cancel request, over a second connection of the same configuration, whenever
// it gives a connection up; one that reaches a COMMIT waiting for a standby
// would make it visible here without being replicated.
func neverCancel(conn *pgx.ConnConfig) {
	var connected atomic.Bool
	dial, after := conn.DialFunc, conn.AfterConnect
	conn.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if connected.Load() {
			return nil, errors.New("the gate's connections send no cancel requests")
		}
		return dial(ctx, network, addr)
	}
	conn.AfterConnect = func(ctx context.Context, c *pgconn.PgConn) error {
		connected.Store(true)
		if after != nil {
			return after(ctx, c)
		}
		return nil
	}
}

const warningKey = "oncegate.warning"

// rememberWarning keeps a WARNING with SQLSTATE 01000 on its connection: in
// reply to COMMIT it says that the wait for a standby ended early, so that the
// transaction is committed here but not where the setting asked for.
func rememberWarning(c *pgconn.PgConn, n *pgconn.Notice) {
	if n.Code == "01000" && n.SeverityUnlocalized == "WARNING" {
		c.CustomData()[warningKey] = n.Message
	}
}

// TakeWarning returns and forgets the connection's remembered warning.
func TakeWarning(conn *pgx.Conn) bool {
	data := conn.PgConn().CustomData()
	_, warned := data[warningKey]
	delete(data, warningKey)
	return warned
}
