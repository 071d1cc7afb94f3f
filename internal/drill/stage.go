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
	*rig.Stage
	host             rig.Host
	idempotent, once *ledger.Received // by the targets
	nodes            []*node
}

// node is one process at a time, at addresses that stay the same.
type node struct {
	rig.NodeConfig // its DSN leads through the proxy
	proxy          *rig.Proxy
	process        *rig.Node
}

// newStage makes the schema and the targets, and starts the processes. If it fails, it also returns what it has made, so
// that the caller can end it. The stage is nil if there is nothing to end.
func newStage(ctx context.Context, o *Options, run string) (*stage, error) {
	s := &stage{host: rig.Host{Binary: o.Binary, Database: o.Database, Apart: true}, idempotent: ledger.NewReceived(), once: ledger.NewReceived()}
	s.Stage = rig.NewStage(&s.host, "oncegate_drill_"+run)
	if err := s.makeSchema(ctx); err != nil {
		return nil, err
	}
	var err error
	if s.host.Dir, err = os.MkdirTemp("", "oncegate-drill-"); err != nil {
		return s, fmt.Errorf("making a directory: %w", err)
	}
	var addresses [2]string
	for i, received := range []*ledger.Received{s.idempotent, s.once} {
		if addresses[i], err = s.Target(&ledger.Target{Received: received, Hang: 3 * time.Second}); err != nil {
			return s, err
		}
	}
	text, env := configuration(sources(), addresses[0], addresses[1])
	s.Variables = env
	if err := s.Configure("%s", text); err != nil {
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
	conn, err := rig.Connect(timed, s.host.Database, s.Schema)
	if err != nil {
		return err
	}
	// A drill can take hours, after which a firewall may have forgotten the connection.
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	if _, err := conn.Exec(ctx, "CREATE SCHEMA "+pgx.Identifier{s.Schema}.Sanitize()); err != nil {
		if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == "42501" { // insufficient_privilege
			err = ErrRight
		}
		return fmt.Errorf("creating schema %s: %w", s.Schema, err)
	}
	if err = migrations.Up(ctx, s.host.Database, s.Schema); err == nil {
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
	conn, err := rig.Connect(timed, s.host.Database, s.Schema)
	if err != nil {
		return fmt.Errorf("dropping schema %s: %w", s.Schema, err)
	}
	defer conn.Close(timed)
	return s.DropSchema(timed, conn)
}

func (s *stage) addNode(ctx context.Context, i int) error {
	n := &node{NodeConfig: rig.NodeConfig{Name: fmt.Sprintf("node-%d", i+1)}}
	err := n.ChooseAddresses()
	if err != nil {
		return err
	}
	if n.proxy, n.DSN, err = s.Proxy("", gatePool, workPool); err != nil {
		return err
	}
	s.nodes = append(s.nodes, n)
	return s.start(ctx, n)
}

// start starts the process of a node and waits until it is ready.
func (s *stage) start(ctx context.Context, n *node) (err error) {
	if n.process, err = s.Serve(ctx, n.NodeConfig); err != nil {
		return fmt.Errorf("%s: %w", n.Name, err)
	}
	return nil
}

// addresses are where the nodes take deliveries.
func (s *stage) addresses() []string {
	all := make([]string, len(s.nodes))
	for i, n := range s.nodes {
		all[i] = n.Public
	}
	return all
}
