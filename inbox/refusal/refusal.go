package refusal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox/seal"
)

// Refusal is a delivery that was not accepted, for the operator who wants to
// know why. It shares no key with the gate, so it can never take the place of
// an event.
type Refusal struct {
	SourceID   int32
	ReceivedAt time.Time

	// Cause is the reason from a closed set ("mismatch", "stale", ...).
	Cause string

	// Diagnosis is one line for the operator; never content, never a secret.
	Diagnosis string

	Method string

	// URL is the path the sender used, without the query: some senders put their
	// credential there.
	URL string

	// Remote is the sender's address.
	Remote string

	// Headers are the request headers worth keeping, as JSON; kept only with Whole.
	Headers []byte

	// Body is the exact bytes. Only a Whole refusal keeps them, others their number.
	Body []byte

	// Whole keeps headers and body: the delivery was well formed and only its
	// signature did not match, which is what a botched rotation looks like.
	// Everything else is sampled without content.
	Whole bool

	// Diagnose may be nil. It returns more than Diagnosis says, from the kept body. It is called
	// after the sender was answered and only for some of the whole refusals, because it may be a
	// hundred times as expensive as a verification. Its text is appended to Diagnosis, with a
	// finding from a closed set: refusals with different findings have different shares. It must
	// not use the request's own body.
	Diagnose func(body []byte) (finding, text string)

	size    int
	peer    string // by Remote
	finding string // of Diagnose
}

// Stats counts since the start of the process.
type Stats struct {
	// Written rows are in the table.
	Written uint64
	// Limited were over the source's rate and never queued.
	Limited uint64
	// Dropped found the queue full.
	Dropped uint64
	// Failed could not be written.
	Failed uint64
	// Evicted rows were over the fair share of a full source.
	Evicted uint64
	// QueuedBytes wait to be written.
	QueuedBytes int64
}

// Config configures a [Store]. Pool and Logger are required; a zero
// field takes its default.
type Config struct {
	// Pool is any pool but the gate's: a flood of refusals must not take the
	// gate's connections. The store uses one connection at a time.
	Pool *pgxpool.Pool

	Logger *slog.Logger

	// Keyring seals the headers and bodies of whole refusals. nil stores them in plain.
	Keyring *seal.Keyring

	// Now returns the time that paces the store. It defaults to time.Now.
	Now func() time.Time

	// MaxRows is the most whole refusals kept for one source. It defaults to 10,000.
	//
	// A full source divides its room evenly: first among the diagnoses, that is by cause and
	// finding, then among the peers of each diagnosis. A peer is an IPv4 address or an IPv6 /64
	// network. A peer with more than an even share loses its own oldest refusals, and others may
	// use the room that a peer does not use.
	MaxRows int

	// MaxBytes is the most bytes of bodies and headers kept for one source. It defaults to
	// 64 MiB.
	MaxBytes int64

	// MaxSamples is the most sampled refusals kept for one source. It defaults to
	// 1,000. They have a limit of their own so that they never push out a whole one.
	MaxSamples int

	// QueueBytes bounds the refusals that wait in memory for the database. It defaults to 8 MiB.
	QueueBytes int64

	// WholePerSecond is how many whole refusals of one source are taken, in bursts
	// of five times as many. It defaults to 200. A quarter of this and of the rates below
	// is kept for peers that have hardly used it.
	WholePerSecond float64

	// BytesPerSecond bounds their bodies and headers, in bursts of four times as many. It
	// defaults to 2 MiB.
	BytesPerSecond float64

	// SamplesPerSecond is how many other refusals of one source are taken, in
	// bursts of ten times as many. It defaults to 1.
	SamplesPerSecond float64

	// DiagnosesPerSecond is how many whole refusals of one source are diagnosed, in
	// bursts of five times as many; all sources together get five times as many. It
	// defaults to 1; -1 diagnoses none.
	DiagnosesPerSecond float64
}

const (
	queueLength  = 4096
	batchRows    = 256
	rowOverhead  = 512 // the memory of a row without its content
	writeTimeout = 5 * time.Second
)

// Store keeps refused deliveries. [Store.Add] never waits: a bounded queue in memory is written
// in batches in the background. A refusal that does not fit is counted and dropped, because a
// refusal helps an operator while an admission is a promise.
type Store struct {
	cfg   Config
	queue chan Refusal

	mu            sync.Mutex
	paces         map[int32]*sourceRates
	diagnosisRate rate // diagnoses of all sources
	shares        map[queueShare]queueFill
	closed        bool

	// fill belongs to the writer alone.
	fill map[shelf]*shelfSize

	queued                                     atomic.Int64
	written, limited, dropped, failed, evicted atomic.Uint64

	done         chan struct{}
	cancelWrites context.CancelFunc
}

// New checks the configuration and makes a store that is not started.
func New(cfg Config) (*Store, error) {
	var errs []error
	if cfg.Pool == nil {
		errs = append(errs, errors.New("refusals: Pool is required"))
	}
	if cfg.Logger == nil {
		errs = append(errs, errors.New("refusals: Logger is required"))
	}
	if cfg.MaxRows < 0 || cfg.MaxBytes < 0 || cfg.MaxSamples < 0 || cfg.QueueBytes < 0 ||
		cfg.WholePerSecond < 0 || cfg.BytesPerSecond < 0 || cfg.SamplesPerSecond < 0 {
		errs = append(errs, errors.New("refusals: limits must not be negative"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	setDefault(&cfg.MaxRows, 10_000)
	setDefault(&cfg.MaxBytes, 64<<20)
	setDefault(&cfg.MaxSamples, 1_000)
	setDefault(&cfg.QueueBytes, 8<<20)
	setDefault(&cfg.WholePerSecond, 200)
	setDefault(&cfg.BytesPerSecond, 2<<20)
	setDefault(&cfg.SamplesPerSecond, 1)
	setDefault(&cfg.DiagnosesPerSecond, 1)
	cfg.DiagnosesPerSecond = max(cfg.DiagnosesPerSecond, 0)
	return &Store{
		cfg:           cfg,
		diagnosisRate: newDiagnosisRate(5 * cfg.DiagnosesPerSecond),
		queue:         make(chan Refusal, queueLength),
		paces:         make(map[int32]*sourceRates),
		shares:        make(map[queueShare]queueFill),
		fill:          make(map[shelf]*shelfSize),
	}, nil
}

func setDefault[T int | int64 | float64](v *T, standard T) {
	if *v == 0 {
		*v = standard
	}
}

// Start begins writing. It returns at once; [Store.Stop] ends it.
func (r *Store) Start(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done != nil || r.closed {
		return errors.New("starting refusals: already started or stopped")
	}
	ctx, r.cancelWrites = context.WithCancel(context.WithoutCancel(ctx))
	r.done = make(chan struct{})
	go r.write(ctx, r.done)
	return nil
}

// Stop accepts no more refusals, writes those that are queued and returns; if ctx ends first,
// the rest is dropped. It may be called before Start and twice.
func (r *Store) Stop(ctx context.Context) error {
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		close(r.queue)
	}
	done, halt := r.done, r.cancelWrites
	r.mu.Unlock()
	if done == nil {
		return nil
	}
	defer halt()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		halt()
		<-done
		return fmt.Errorf("stopping refusals: %w", context.Cause(ctx))
	}
}

// Add queues a refusal and reports whether it was taken. It copies what it
// keeps, so the caller may reuse the body at once.
func (r *Store) Add(refusal Refusal) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	pace := r.paces[refusal.SourceID]
	if pace == nil {
		pace = newRefusalPace(&r.cfg)
		r.paces[refusal.SourceID] = pace
	}
	refusal.peer = strings.Clone(peerOf(refusal.Remote))
	if !pace.take(&refusal, r.cfg.Now()) {
		r.limited.Add(1)
		return false
	}
	if !r.reserve(&refusal, refusal.memorySize()) {
		r.dropped.Add(1)
		return false
	}
	if refusal.Diagnose != nil && !(refusal.Whole && pace.diagnose(&refusal, &r.diagnosisRate, r.cfg.Now())) {
		refusal.Diagnose = nil
	}
	r.queue <- refusal.storedCopy() // never blocks: this lock is the only way in, and there was room
	return true
}

// Stats returns the current counters.
func (r *Store) Stats() Stats {
	return Stats{
		Written:     r.written.Load(),
		Limited:     r.limited.Load(),
		Dropped:     r.dropped.Load(),
		Failed:      r.failed.Load(),
		Evicted:     r.evicted.Load(),
		QueuedBytes: r.queued.Load(),
	}
}

func (r *Refusal) memorySize() int64 {
	if !r.Whole {
		return rowOverhead
	}
	return rowOverhead + int64(len(r.Body)+len(r.Headers))
}

// storedCopy is the refusal for storage: its own copy of the content, with texts that PostgreSQL
// can store.
func (r *Refusal) storedCopy() Refusal {
	kept := *r
	kept.size = len(r.Body)
	kept.Cause = storable(r.Cause, 64)
	kept.Diagnosis = storable(r.Diagnosis, 1024)
	kept.Method = storable(r.Method, 32)
	kept.URL = storable(r.URL, 1024)
	kept.Remote = storable(r.Remote, 128)
	if r.Whole {
		kept.Body = append(make([]byte, 0, len(r.Body)), r.Body...)
		kept.Headers = append([]byte(nil), r.Headers...)
	} else {
		kept.Body, kept.Headers = nil, nil
	}
	return kept
}

// storable bounds a text and removes characters that a text column refuses. It copies, so that a
// row in the queue does not keep its request in memory.
func storable(s string, limit int) string {
	if len(s) > limit {
		s = s[:limit]
	}
	if strings.IndexByte(s, 0) >= 0 {
		s = strings.ReplaceAll(s, "\x00", "")
	}
	return strings.Clone(strings.ToValidUTF8(s, "?"))
}
