package drill

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oncegate/oncegate/internal/drill/ledger"
	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/migrations"
)

// ErrRight means that the role of the database's URL may not create a schema.
var ErrRight = errors.New("the role may not create a schema in this database: GRANT CREATE ON DATABASE, or name a role that may")

// The names of the pools whose connections are cut, which are parts of their application_name.
const (
	gatePool = "oncegate gate"
	workPool = "oncegate work"
)

// stage has the schema, the targets, the processes and the proxies of a drill.
type stage struct {
	host             rig.Host
	database, schema string
	idempotent, once *target
	config           string
	nodes            []*node
}

// target is an HTTP target with its ledger.
type target struct {
	*rig.Target
	received *ledger.Received
}

// node is one process at a time, at addresses that stay the same.
type node struct {
	name          string
	public, admin string
	proxy         *rig.Proxy
	dsn           string // leads through the proxy
	process       *rig.Node
}

// newStage makes the schema and the targets, and starts the processes. If it fails, it also returns what it has made, so
// that the caller can close it. The stage is nil if there is nothing to close.
func newStage(ctx context.Context, o *Options, run string) (*stage, error) {
	s := &stage{database: o.Database, schema: "oncegate_drill_" + run}
	if err := s.makeSchema(ctx); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "oncegate-drill-")
	if err != nil {
		return s, fmt.Errorf("making a directory: %w", err)
	}
	s.host = rig.Host{Dir: dir, Binary: o.Binary, Database: o.Database, Apart: true}
	if s.idempotent, err = startTarget(); err != nil {
		return s, err
	}
	if s.once, err = startTarget(); err != nil {
		return s, err
	}
	text, env := configuration(sources(), s.idempotent.Address, s.once.Address)
	s.host.Env = env
	if s.config, err = s.host.WriteFile("oncegate.yml", text); err != nil {
		return s, err
	}
	for i := range o.Nodes {
		if err := s.addNode(ctx, i); err != nil {
			return s, err
		}
	}
	return s, nil
}

// makeSchema creates the schema and its tables. It fails if the schema exists.
func (s *stage) makeSchema(ctx context.Context) (err error) {
	timed, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conn, err := rig.Connect(timed, s.database, s.schema)
	if err != nil {
		return err
	}
	// A drill can take hours, after which a firewall may have forgotten the connection.
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	if _, err := conn.Exec(ctx, "CREATE SCHEMA "+pgx.Identifier{s.schema}.Sanitize()); err != nil {
		if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == "42501" { // insufficient_privilege
			err = ErrRight
		}
		return fmt.Errorf("creating schema %s: %w", s.schema, err)
	}
	if err = migrations.Up(ctx, s.database, s.schema); err == nil {
		_, err = conn.Exec(ctx, makeTarget)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("making the tables: %w", err), s.dropSchema(ctx))
	}
	return nil
}

// dropSchema drops the schema, also after ctx has ended.
func (s *stage) dropSchema(ctx context.Context) error {
	timed, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	conn, err := rig.Connect(timed, s.database, s.schema)
	if err != nil {
		return fmt.Errorf("dropping schema %s: %w", s.schema, err)
	}
	defer conn.Close(timed)
	if _, err := conn.Exec(timed, "DROP SCHEMA "+pgx.Identifier{s.schema}.Sanitize()+" CASCADE"); err != nil {
		return fmt.Errorf("dropping schema %s: %w", s.schema, err)
	}
	return nil
}

func startTarget() (*target, error) {
	t := &target{received: ledger.NewReceived()}
	var err error
	t.Target, err = rig.StartTarget(&ledger.Target{Received: t.received, Hang: 3 * time.Second})
	return t, err
}

func (s *stage) addNode(ctx context.Context, i int) error {
	n := &node{name: fmt.Sprintf("node-%d", i+1)}
	var err error
	if n.public, err = rig.FreeAddress(); err != nil {
		return err
	}
	if n.admin, err = rig.FreeAddress(); err != nil {
		return err
	}
	if n.proxy, n.dsn, err = rig.StartProxy(s.database, gatePool, workPool); err != nil {
		return err
	}
	s.nodes = append(s.nodes, n)
	return s.start(ctx, n)
}

// start starts the process of a node and waits until it is ready.
func (s *stage) start(ctx context.Context, n *node) error {
	process, err := s.host.Serve(ctx, rig.NodeConfig{
		Name: n.name, Config: s.config, Schema: s.schema, DSN: n.dsn, Public: n.public, Admin: n.admin,
	})
	if err != nil {
		return fmt.Errorf("%s: %w", n.name, err)
	}
	n.process = process
	return nil
}

// addresses are where the nodes take deliveries.
func (s *stage) addresses() []string {
	all := make([]string, len(s.nodes))
	for i, n := range s.nodes {
		all[i] = n.public
	}
	return all
}

// close ends everything that the stage has started. It leaves the schema and the directory.
func (s *stage) close() error {
	var errs []error
	for _, n := range s.nodes {
		if n.process != nil {
			errs = append(errs, n.process.Kill())
		}
		errs = append(errs, n.proxy.Close())
	}
	for _, t := range []*target{s.idempotent, s.once} {
		if t != nil && t.Target != nil {
			errs = append(errs, t.Close())
		}
	}
	return errors.Join(errs...)
}
