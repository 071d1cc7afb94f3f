package outage

import (
	"context"
	"errors"
	"fmt"

	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// cluster is three servers of NATS with JetStream.
type cluster struct{ servers []*natsServer }

// natsServer is the distribution's nats-server.
type natsServer struct {
	name, dir, address string
	process            *rig.Process
}

// startWithin is how long a server, or the election of a leader, may take on a busy machine.
const startWithin = 2 * time.Minute

// startCluster writes the configurations and starts three servers.
func startCluster(ctx context.Context, dir string) (*cluster, error) {
	c := &cluster{}
	routes := make([]string, 3)
	for i := range routes {
		address, err := rig.FreeAddress()
		if err != nil {
			return nil, err
		}
		if routes[i], err = rig.FreeAddress(); err != nil {
			return nil, err
		}
		c.servers = append(c.servers, &natsServer{name: fmt.Sprint("n", i), dir: filepath.Join(dir, fmt.Sprint("nats", i)), address: address})
	}
	for i, s := range c.servers {
		if err := os.MkdirAll(s.dir, 0o700); err != nil {
			return nil, err
		}
		content := fmt.Sprintf("server_name: %s\nlisten: %q\njetstream { store_dir: %q }\ncluster { name: trial, listen: %q, routes: [%s] }\n",
			s.name, s.address, s.dir, routes[i], `"nats://`+strings.Join(routes, `", "nats://`)+`"`)
		if err := os.WriteFile(s.config(), []byte(content), 0o600); err != nil {
			return nil, err
		}
	}
	for _, s := range c.servers {
		if err := s.start(ctx); err != nil {
			return nil, errors.Join(err, c.end())
		}
	}
	return c, nil
}

func (s *natsServer) config() string { return filepath.Join(s.dir, "nats.conf") }

func (s *natsServer) start(ctx context.Context) (err error) {
	if s.process, err = rig.Start(filepath.Join(s.dir, "log"), nil, "nats-server", "-c", s.config()); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	return s.process.Listening(ctx, s.address)
}

// url returns the address of the cluster for a configuration.
func (c *cluster) url() string {
	hosts := make([]string, len(c.servers))
	for i, s := range c.servers {
		hosts[i] = s.address
	}
	return "nats://" + strings.Join(hosts, ",")
}

// stream asks one of the servers for the stream of the buffer.
func (c *cluster) stream(ctx context.Context) (*jetstream.StreamInfo, error) {
	conn, err := nats.Connect(c.url(), nats.Timeout(2*time.Second))
	if err != nil {
		return nil, fmt.Errorf("connecting to NATS: %w", err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	stream, err := js.Stream(ctx, "oncegate")
	if err != nil {
		return nil, err
	}
	return stream.CachedInfo(), nil
}

// settled waits until the stream has a leader and two replicas that have everything.
func (c *cluster) settled(ctx context.Context) error {
	return rig.Poll(ctx, 200*time.Millisecond, startWithin, "the buffer to have a leader", func() (bool, error) {
		info, err := c.stream(ctx)
		if leaderless := err != nil || info.Cluster == nil || info.Cluster.Leader == ""; leaderless {
			return false, nil
		}
		for _, r := range info.Cluster.Replicas {
			if !r.Current || r.Offline {
				return false, nil
			}
		}
		return true, nil
	})
}

// led waits until the stream has a leader that is not the server that was killed.
func (c *cluster) led(ctx context.Context, killed string) error {
	return rig.Poll(ctx, 100*time.Millisecond, startWithin, "the buffer to elect a leader", func() (bool, error) {
		info, err := c.stream(ctx)
		return err == nil && info.Cluster != nil && info.Cluster.Leader != "" && info.Cluster.Leader != killed, nil
	})
}

// leader returns which server leads the stream.
func (c *cluster) leader(ctx context.Context) (int, error) {
	if err := c.settled(ctx); err != nil {
		return 0, err
	}
	info, err := c.stream(ctx)
	if err != nil {
		return 0, err
	}
	for i, s := range c.servers {
		if s.name == info.Cluster.Leader {
			return i, nil
		}
	}
	return 0, fmt.Errorf("server %s leads the stream, and it is not of the cluster", info.Cluster.Leader)
}

// end kills the servers.
func (c *cluster) end() error {
	var errs []error
	for _, s := range c.servers {
		if s.process != nil && s.process.Running() {
			errs = append(errs, s.process.Kill())
		}
	}
	return errors.Join(errs...)
}
