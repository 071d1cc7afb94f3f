package brokers

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// broker is a server that the campaign runs.
type broker interface {
	// start starts the server and waits until it takes connections.
	start(ctx context.Context) error
	kill() error

	// prepare makes the stream or the queues, once.
	prepare(ctx context.Context) error

	// target and source are the keys of a target and of a source at the broker.
	target() string
	source() string

	// ids returns the ids of all messages that the broker has stored, also of those that were consumed.
	ids(ctx context.Context) ([]string, error)

	// end stops what the server has started.
	end() error
	log() string
}

// MaxMessage is the largest message that the RabbitMQ of [ServeRabbitMQ] takes, as the suites expect it.
const MaxMessage = 1_000_012

// startWithin is how long a server may take to start on a busy machine.
const startWithin = 3 * time.Minute

// newBroker returns the broker of a name.
func newBroker(name, dir string) (broker, error) {
	address, err := rig.FreeAddress()
	if err != nil {
		return nil, err
	}
	s := server{dir: dir, address: address}
	switch name {
	case "nats":
		return &natsServer{server: s}, nil
	case "rabbitmq":
		return newRabbitServer(s)
	}
	return nil, fmt.Errorf("unknown broker %q: want nats or rabbitmq", name)
}

type server struct {
	dir, address string
	process      *rig.Process
}

func (s *server) kill() error { return s.process.Kill() }
func (s *server) log() string { return filepath.Join(s.dir, "broker.log") }

func (s *server) run(ctx context.Context, env []string, program string, args ...string) (err error) {
	if s.process, err = rig.Start(s.log(), env, program, args...); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	return s.process.Listening(ctx, s.address)
}

// natsServer is the distribution's nats-server with JetStream.
type natsServer struct{ server }

func (s *natsServer) start(ctx context.Context) error {
	host, port, err := net.SplitHostPort(s.address)
	if err != nil {
		return err
	}
	return s.run(ctx, nil, "nats-server", "-js", "-sd", filepath.Join(s.dir, "jetstream"), "-a", host, "-p", port)
}

func (s *natsServer) stream(ctx context.Context, do func(js jetstream.JetStream) error) error {
	conn, err := nats.Connect("nats://" + s.address)
	if err != nil {
		return fmt.Errorf("connecting to NATS: %w", err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	return do(js)
}

func (s *natsServer) prepare(ctx context.Context) error {
	return s.stream(ctx, func(js jetstream.JetStream) error {
		_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}, Storage: jetstream.FileStorage})
		return err
	})
}

func (s *natsServer) target() string {
	return fmt.Sprintf(`url: "nats://%s", stream: ORDERS, subject: "orders.{body.customer}"`, s.address)
}

func (s *natsServer) source() string {
	return fmt.Sprintf(`url: "nats://%s", stream: ORDERS`, s.address)
}

func (s *natsServer) ids(ctx context.Context) (out []string, err error) {
	err = s.stream(ctx, func(js jetstream.JetStream) error {
		stream, err := js.Stream(ctx, "ORDERS")
		if err != nil {
			return err
		}
		for sequence := stream.CachedInfo().State.FirstSeq; sequence <= stream.CachedInfo().State.LastSeq; sequence++ {
			msg, err := stream.GetMsg(ctx, sequence)
			if err != nil {
				return fmt.Errorf("reading message %d: %w", sequence, err)
			}
			out = append(out, msg.Header.Get("ce-id"))
		}
		return nil
	})
	return out, err
}

func (s *natsServer) end() error { return s.kill() }

// rabbitServer is the distribution's rabbitmq-server.
type rabbitServer struct {
	server
	env []string
}

// newRabbitServer writes the configuration. Erlang's port mapper gets a separate port, because the machine may run another
// RabbitMQ.
func newRabbitServer(s server) (*rabbitServer, error) {
	var ports [2]string
	for i := range ports {
		address, err := rig.FreeAddress()
		if err != nil {
			return nil, err
		}
		_, ports[i], _ = net.SplitHostPort(address)
	}
	content := fmt.Sprintf("listeners.tcp.local = %s\nmax_message_size = %d\n", s.address, MaxMessage)
	if err := os.WriteFile(filepath.Join(s.dir, "rabbitmq.conf"), []byte(content), 0o600); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(s.dir, "plugins"), nil, 0o600); err != nil {
		return nil, err
	}
	return &rabbitServer{server: s, env: []string{
		// The script becomes the server then, instead of its parent: a kill must reach the server.
		"RUNNING_UNDER_SYSTEMD=true",
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-mnesia core_dir false", // it would write into the working directory
		"HOME=" + s.dir, "ERL_CRASH_DUMP=" + filepath.Join(s.dir, "erl_crash.dump"), "ERL_EPMD_PORT=" + ports[0], "ERL_EPMD_ADDRESS=127.0.0.1", "RABBITMQ_NODENAME=trial@localhost", "RABBITMQ_DIST_PORT=" + ports[1],
		"RABBITMQ_MNESIA_BASE=" + filepath.Join(s.dir, "mnesia"), "RABBITMQ_LOG_BASE=" + filepath.Join(s.dir, "log"),
		"RABBITMQ_CONFIG_FILE=" + filepath.Join(s.dir, "rabbitmq"), "RABBITMQ_ENABLED_PLUGINS_FILE=" + filepath.Join(s.dir, "plugins"),
	}}, nil
}

func (s *rabbitServer) start(ctx context.Context) error {
	return s.run(ctx, s.env, "/usr/lib/rabbitmq/bin/rabbitmq-server")
}

func (s *rabbitServer) channel(do func(*amqp.Channel) error) error {
	conn, err := amqp.Dial("amqp://guest:guest@" + s.address)
	if err != nil {
		return fmt.Errorf("connecting to RabbitMQ: %w", err)
	}
	defer conn.Close()
	channel, err := conn.Channel()
	if err != nil {
		return err
	}
	return do(channel)
}

// prepare makes a queue for the consumer, and one that keeps a copy of every message.
func (s *rabbitServer) prepare(context.Context) error {
	return s.channel(func(c *amqp.Channel) error {
		if err := c.ExchangeDeclare("orders", "fanout", true, false, false, false, nil); err != nil {
			return err
		}
		for _, queue := range []string{"in", "copy"} {
			if _, err := c.QueueDeclare(queue, true, false, false, false, nil); err != nil {
				return err
			}
			if err := c.QueueBind(queue, "", "orders", false, nil); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *rabbitServer) target() string {
	return fmt.Sprintf(`url: "amqp://%s", exchange: orders, subject: "orders.{body.customer}"`, s.address)
}

func (s *rabbitServer) source() string { return fmt.Sprintf(`url: "amqp://%s", queue: in`, s.address) }

func (s *rabbitServer) ids(context.Context) (out []string, err error) {
	err = s.channel(func(c *amqp.Channel) error {
		for {
			d, found, err := c.Get("copy", true)
			if err != nil || !found {
				return err
			}
			out = append(out, d.MessageId)
		}
	})
	return out, err
}

// ServeRabbitMQ starts a RabbitMQ for the suites of publishers and consumers, and returns its address with an account.
func ServeRabbitMQ(ctx context.Context, dir string) (url string, end func() error, err error) {
	b, err := newBroker("rabbitmq", dir)
	if err != nil {
		return "", nil, err
	}
	if err := b.start(ctx); err != nil {
		return "", nil, fmt.Errorf("starting RabbitMQ: %w: %s", err, rig.TailFile(b.log()))
	}
	s, _ := b.(*rabbitServer)
	return "amqp://guest:guest@" + s.address + "/", b.end, nil
}

// end kills the server and the port mapper that it has started.
func (s *rabbitServer) end() error {
	if err := s.kill(); err != nil {
		return err
	}
	mapper, err := rig.Start(s.log(), s.env, "epmd", "-kill")
	if err != nil {
		return err
	}
	<-mapper.Done()
	return nil
}
