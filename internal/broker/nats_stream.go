package broker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// StreamConfig says which stream of JetStream to publish to. Address, Name and Replicas are required.
type StreamConfig struct {
	Config

	// Name is the name of the stream. Its subjects begin with it and a dot.
	Name string

	// Replicas is how many servers store a message before it is acknowledged.
	Replicas int
}

// Check reports the first problem of the configuration.
func (c *StreamConfig) Check() error {
	if err := c.check(); err != nil {
		return err
	}
	switch {
	case c.Address.Kind != NATS:
		return errors.New("url: only NATS has streams that Oncegate makes")
	case c.Name == "" || strings.ContainsAny(c.Name, " .*>/\\"):
		return errors.New("stream: want a name without spaces, dots, slashes, * and >")
	case c.Replicas < 1 || c.Replicas > 5:
		return errors.New("replicas: JetStream stores 1 to 5")
	}
	return nil
}

// Stream publishes to a stream that it makes if there is none. It is safe for concurrent use.
type Stream struct {
	natsPublisher
	cfg StreamConfig
}

// NewStream makes a Stream. It does not connect.
func NewStream(cfg StreamConfig) (*Stream, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	s := &Stream{cfg: cfg}
	s.natsPublisher = natsPublisher{natsConn: natsConn{cfg: &s.cfg.Config, dialer: newDialer(&s.cfg.Config)}, stream: cfg.Name}
	return s, nil
}

// Publish implements [Publisher]. It makes the stream if there is none.
func (s *Stream) Publish(ctx context.Context, m *Message) (known bool, err error) {
	known, err = s.natsPublisher.Publish(ctx, m)
	if !errors.Is(err, ErrNoPlace) {
		return known, err
	}
	if made := s.Ensure(ctx); made != nil {
		return false, made
	}
	return s.natsPublisher.Publish(ctx, m)
}

// Ensure makes the stream if there is none. It does not change one that exists: see [Stream.Check].
func (s *Stream) Ensure(ctx context.Context) error {
	_, js, _, err := s.opened()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	_, err = js.Stream(ctx, s.cfg.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		_, err = js.CreateStream(ctx, s.wanted())
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			return nil // another process has just made it
		}
	}
	if err == nil {
		return nil
	}
	if answer, ok := errors.AsType[*jetstream.APIError](err); ok {
		return &Error{Err: fmt.Errorf("%w: %s", ErrRefused, answer.Description), Code: fmt.Sprint(uint16(answer.ErrorCode))}
	}
	return unreachable(err)
}

// wanted returns the stream as Ensure makes it. A message is deleted when it is acknowledged. The stream has no limits, because
// a message that it discarded would be lost.
func (s *Stream) wanted() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: s.cfg.Name, Description: "oncegate: deliveries that wait to be recorded", Subjects: []string{s.cfg.Name + ".>"},
		Retention: jetstream.WorkQueuePolicy, Discard: jetstream.DiscardNew, Storage: jetstream.FileStorage, Replicas: s.cfg.Replicas,
	}
}

// Check returns what the stream does to messages that it has acknowledged. A stream that does not exist has no faults, because
// [Stream.Publish] makes it. err means that the servers could not be asked.
func (s *Stream) Check(ctx context.Context) ([]Fault, error) {
	_, js, _, err := s.opened()
	if err != nil {
		return nil, err
	}
	found, err := js.Stream(ctx, s.cfg.Name)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return s.makeable(ctx, js)
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return []Fault{{Text: "the server has no JetStream", Remedy: "start nats-server with jetstream and a store_dir"}}, nil
	case err != nil:
		return nil, fmt.Errorf("asking for stream %s: %w", s.cfg.Name, err)
	}
	return s.faults(&found.CachedInfo().Config), nil
}

// makeable reports whether the servers can make the stream.
func (s *Stream) makeable(ctx context.Context, js jetstream.JetStream) ([]Fault, error) {
	if s.cfg.Replicas > 1 {
		info, err := js.AccountInfo(ctx)
		if err != nil {
			return nil, fmt.Errorf("asking for the account: %w", err)
		}
		if conn, _, _, err := s.opened(); err == nil && conn.ConnectedClusterName() == "" {
			return []Fault{{Text: fmt.Sprintf("the server belongs to no cluster, and the stream needs %d replicas", s.cfg.Replicas), Remedy: "run a cluster of three servers, or set buffer.replicas: 1 for development"}}, nil
		}
		if most := info.Limits.MaxStreams; most >= 0 && info.Streams >= most {
			return []Fault{{Text: "the account may have no further stream", Remedy: "raise its limit of streams"}}, nil
		}
	}
	return nil, nil
}

// faults compares a stream with the one that Ensure would make.
func (s *Stream) faults(cfg *jetstream.StreamConfig) (out []Fault) {
	want := s.wanted()
	add := func(warning bool, text, remedy string) {
		out = append(out, Fault{Text: "stream " + cfg.Name + " " + text, Remedy: remedy, Warning: warning})
	}
	if cfg.NoAck {
		add(false, "acknowledges nothing (no_ack), so nothing says whether it has a delivery", "turn no_ack off")
	}
	if len(cfg.Subjects) != 1 || cfg.Subjects[0] != want.Subjects[0] {
		add(false, "takes other subjects than "+want.Subjects[0], "name another stream in buffer.stream, or give it this subject alone")
	}
	if cfg.Retention != want.Retention {
		add(false, "does not delete a message when it is acknowledged, so it grows for ever", "make it with retention: workqueue")
	}
	if cfg.Storage != want.Storage {
		add(false, "keeps messages in memory only, and loses them with the servers", "store it in files")
	}
	if cfg.Replicas < want.Replicas {
		add(false, fmt.Sprintf("has %d replica(s), and buffer.replicas is %d", cfg.Replicas, want.Replicas), fmt.Sprintf("give it %d replicas", want.Replicas))
	}
	if cfg.MaxAge > 0 {
		add(false, "deletes messages after "+cfg.MaxAge.String()+", also those that are not recorded", "set max_age to 0")
	}
	if cfg.Discard == jetstream.DiscardOld && (cfg.MaxMsgs > 0 || cfg.MaxBytes > 0) || cfg.MaxMsgsPerSubject > 0 && !(cfg.DiscardNewPerSubject && cfg.Discard == jetstream.DiscardNew) {
		add(false, "discards its oldest messages when it is full, also those that are not recorded", "set discard: new")
	}
	return out
}

// Waiting returns how many messages the stream has that are not acknowledged, and when it stored the oldest of them. A stream that does not
// exist has none. err means that the servers could not be asked.
func (s *Stream) Waiting(ctx context.Context) (n uint64, oldest time.Time, err error) {
	_, js, _, err := s.opened()
	if err != nil {
		return 0, time.Time{}, err
	}
	found, err := js.Stream(ctx, s.cfg.Name)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return 0, time.Time{}, nil
	case err != nil:
		return 0, time.Time{}, fmt.Errorf("asking for stream %s: %w", s.cfg.Name, err)
	}
	if state := &found.CachedInfo().State; state.Msgs > 0 {
		return state.Msgs, state.FirstTime, nil
	}
	return 0, time.Time{}, nil
}

// MaxPayload returns the largest message that the server takes, in bytes with its headers. err means that it could not be
// asked.
func (s *Stream) MaxPayload() (int64, error) {
	conn, _, _, err := s.opened()
	if err != nil {
		return 0, err
	}
	return conn.MaxPayload(), nil
}

// Connected reports whether there is a connection, without making one.
func (s *Stream) Connected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn != nil && s.conn.IsConnected()
}
