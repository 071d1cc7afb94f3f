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

// PoolRole says what a pool is for. It determines the server-side timeouts and is part
// of the connection's application name.
type PoolRole string

const (
	// PoolGate commits admissions. Its connections have a lock timeout of 1 s. They have
	// no statement timeout and never send a cancel request, because both would also
	// interrupt a COMMIT that waits for a standby. The gate's own deadline detects a stalled
	// server.
	PoolGate PoolRole = "gate"
	// PoolWork is the pool of the effect worker.
	PoolWork PoolRole = "work"
	// PoolQueue is River's pool.
	PoolQueue PoolRole = "queue"
	// PoolAdmin is for operators' requests.
	PoolAdmin PoolRole = "admin"
	// PoolList is for lists and pages. Its sessions are read-only, its statements end after
	// 2 s, and the planner does not scan a whole table if it can use an index. 2 to 4 connections
	// are enough, so that lists take little capacity from deliveries.
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

// settings returns the settings of the role's connections. All other settings keep the
// server's values.
func (r PoolRole) settings() Settings {
	switch r {
	case PoolGate:
		return Settings{
			"lock_timeout":                        "1000",
			"statement_timeout":                   "0",
			"idle_in_transaction_session_timeout": "10000",
			// Every statement of the gate finds its rows through an index. It must still do
			// so when the table has grown a thousandfold since the last ANALYZE.
			"enable_seqscan":   "off",
			"enable_hashjoin":  "off",
			"enable_mergejoin": "off",
			"plan_cache_mode":  "force_generic_plan",
		}
	case PoolWork:
		return Settings{
			"lock_timeout":                        "5000",
			"idle_in_transaction_session_timeout": "60000",
			// As for the gate. An effect that acts inside the database gets the default planner
			// settings in its own transaction.
			"enable_seqscan":   "off",
			"enable_hashjoin":  "off",
			"enable_mergejoin": "off",
			// A scan in the order of an index stops when it has enough rows.
			"enable_bitmapscan": "off",
			"plan_cache_mode":   "force_generic_plan",
		}
	case PoolQueue:
		return Settings{
			"lock_timeout": "5000",
			// River's statements and the sweeper's are short. If the timeout ends a COMMIT that
			// waits for a standby, the worst result is a second wake-up.
			"statement_timeout":                   "60000",
			"idle_in_transaction_session_timeout": "60000",
			// River's statements join lists to its table. With a plan made once, on the empty
			// table at the start of a process, each fetch from a backlog took half a second,
			// because the plan walked the table for every job.
			"plan_cache_mode": "force_custom_plan",
			// The table is small and hot, and may grow a thousandfold between two ANALYZEs. These
			// settings make PostgreSQL look up jobs one by one.
			"enable_seqscan":   "off",
			"random_page_cost": "1.1",
		}
	case PoolList:
		return Settings{
			"default_transaction_read_only":       "on",
			"lock_timeout":                        "1000",
			"statement_timeout":                   "2000",
			"idle_in_transaction_session_timeout": "10000",
			// A list is read window by window, in the order of an index. With old statistics the
			// planner would prefer to sort or hash a whole table.
			"enable_seqscan":    "off",
			"enable_bitmapscan": "off",
			"enable_hashjoin":   "off",
			"enable_mergejoin":  "off",
			"enable_sort":       "off",
			// Parallel workers would read more rows than the page needs, and compete with deliveries for processors.
			"max_parallel_workers_per_gather": "0",
		}
	default:
		return Settings{"lock_timeout": "5000", "statement_timeout": "60000", "idle_in_transaction_session_timeout": "60000"}
	}
}

// PoolOption configures a pool.
type PoolOption func(*poolOptions)

type poolOptions struct {
	settings Settings
	guard    *Guard
	history  *History
	anyHost  bool
	effects  bool
}

// leastIdle is the least time after which the server ends an idle transaction, because a
// process may pause for a moment.
const leastIdle = 5 * time.Second

// VanishAfter makes the server end a transaction that has been idle for the given time, at
// least 5 s, so that the locks of a vanished host are released. Pass the lease of
// claims, because other processes may take over the host's claims after that time.
func VanishAfter(lease time.Duration) PoolOption {
	return func(o *poolOptions) {
		o.settings["idle_in_transaction_session_timeout"] = milliseconds(max(lease, leastIdle))
	}
}

// GuardedBy makes the pool hand out no connections while the guard knows that a pooler
// shares sessions, and none that the guard's [History] refuses. A pool without the option has its own guard.
func GuardedBy(guard *Guard) PoolOption {
	return func(o *poolOptions) { o.guard, o.history = guard, guard.History() }
}

// FencedBy makes the pool hand out no connections that history refuses. The pool keeps its own guard. Pass FencedBy after [GuardedBy],
// because both set the history.
func FencedBy(history *History) PoolOption {
	return func(o *poolOptions) { o.history = history }
}

// AnyHost makes the pool follow target_session_attrs in a url with several hosts, instead of always using the primary. Lists may be
// read from a standby.
func AnyHost() PoolOption {
	return func(o *poolOptions) { o.anyHost = true }
}

// CarriesOut says that effects run over the pool. The pool hands out no session before the database's history is decided; see
// [History.Decide].
func CarriesOut() PoolOption {
	return func(o *poolOptions) { o.effects = true }
}

// Commits makes the pool's sessions commit with a value of synchronous_commit other than "on", which every pool has by default.
func Commits(synchronousCommit string) PoolOption {
	return func(o *poolOptions) { o.settings["synchronous_commit"] = synchronousCommit }
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

func seconds(d time.Duration) string { return strconv.FormatInt(int64(d/time.Second), 10) }

// OpenPool opens a pool on the database of url. schema is the search path of its
// sessions. maxConns is the size of the pool; 0 uses the size in the url. OpenPool connects
// lazily, so that the first use reports an unreachable database.
//
// Each new connection sets up its session and reads the settings back. The pool refuses a
// connection whose settings differ ([SettingError]), and every connection while a
// pooler is known to share sessions ([ErrShared]).
func OpenPool(ctx context.Context, url, schema string, role PoolRole, maxConns int32, options ...PoolOption) (*pgxpool.Pool, error) {
	return OpenPoolWithin(ctx, url, schema, role, maxConns, 0, options...)
}

// OpenPoolWithin is [OpenPool] for a pool whose connections wait at most silence for data
// from the server, even if the caller has no deadline; 0 means no limit. A connection that
// waits longer fails, so silence must be longer than any statement needs.
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
		// The server also notices when this machine has vanished, and releases its locks.
		"client_connection_check_interval": milliseconds(checkInterval),
		"tcp_keepalives_idle":              seconds(keepaliveIdle),
		"tcp_keepalives_interval":          seconds(keepaliveInterval),
		"tcp_keepalives_count":             strconv.Itoa(keepaliveCount),
		"tcp_user_timeout":                 milliseconds(userTimeout),
		// This overrides the settings of the database and the role, because an acknowledgement
		// and the mark that a send began must be on disk, and on any synchronous standbys.
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
	// Prepare needs the connect timeout, which limits setting up a session.
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

// neverCancel makes an established connection refuse to dial again. pgx sends a cancel
// request, over a second connection of the same configuration, whenever it abandons a
// connection. A cancel request during a COMMIT that waits for a standby would make the
// transaction visible here before it is replicated.
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

// rememberWarning keeps a WARNING with SQLSTATE 01000 on its connection. In reply to COMMIT,
// that warning says that the wait for a standby ended early: the transaction is committed
// here, but not on the standbys that the setting requires.
func rememberWarning(c *pgconn.PgConn, n *pgconn.Notice) {
	if n.Code == "01000" && n.SeverityUnlocalized == "WARNING" {
		c.CustomData()[warningKey] = n.Message
	}
}

// TakeWarning reports whether the connection remembers a warning, and forgets it.
func TakeWarning(conn *pgx.Conn) bool {
	data := conn.PgConn().CustomData()
	_, warned := data[warningKey]
	delete(data, warningKey)
	return warned
}
