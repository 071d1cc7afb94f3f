package inbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/inbox/seal"
	"github.com/oncegate/oncegate/inbox/sequence"
	"github.com/oncegate/oncegate/internal/session"
)

// EffectRoute is what the store has to know about a route whose effects it
// hands out.
type EffectRoute struct {
	// Target names where this process sends the effects. An effect that may have happened
	// at another target is not sent; see [Effects.Elsewhere].
	Target string

	// Lease is how long a claim lasts. An attempt's deadline must end before. It
	// defaults to 60 s.
	Lease time.Duration

	// InDatabase: the effects act in the transaction that settles them.
	InDatabase bool

	// Idempotent: the target deduplicates by key, so that an attempt whose end is
	// unknown may be repeated.
	Idempotent bool

	// KeyWindow is how long an idempotent target remembers a key. Once the outcome of an attempt
	// is unknown, no attempt is made later than KeyWindow after that attempt began: the effect
	// is indeterminate. 0 means forever.
	KeyWindow time.Duration

	// KeyKeep is how long the owner of a key by recipe keeps it from others once it
	// is done, between the two events' receipts. It defaults to 30 days.
	KeyKeep time.Duration

	// KeyWithin, if set, makes one effect only of events received within it of each
	// other.
	KeyWithin time.Duration

	// Retry says when an attempt follows another.
	Retry RetryPolicy

	// Rearms is how often redeliveries may give a dead effect new attempts. 0 is
	// the default of 3, -1 is off.
	Rearms int

	// Order says how the effects of one sequence key wait for each other. The zero
	// Policy is unordered.
	Order sequence.Policy

	// Shadow: the source is in shadow mode. It does not change the route's effects: each has recorded that when it was
	// admitted.
	Shadow bool

	// Series are the streams that the route's order makes. Streams of another definition are
	// decided by the order under which they began.
	Series Series
}

// Forgotten reports whether the target may no longer know, at the time at, the
// key of an attempt whose outcome has been unknown since then; zero is never.
func (r EffectRoute) Forgotten(since, at time.Time) bool {
	return r.KeyWindow > 0 && !since.IsZero() && at.Sub(since) >= r.KeyWindow
}

// The defaults of [EffectRoute] and the least time between two rearms.
const (
	DefaultLease   = 60 * time.Second
	DefaultRearms  = 3
	RearmInterval  = time.Minute
	DefaultKeyKeep = 30 * 24 * time.Hour
)

// claimInterval is the least time between two groups of claims while several come at a
// time. An effect waits for it once, for 5 ms in the mean; `./scripts/bench replay` shows
// what the processors do.
const claimInterval = 10 * time.Millisecond

// EffectsConfig configures an [Effects]. Pool, Enqueuer and Node are required.
type EffectsConfig struct {
	// Pool runs the claims and settlements. It should not be River's.
	Pool     *pgxpool.Pool
	Enqueuer Enqueuer

	// Keyring opens bodies and seals requests, results and excerpts. nil stores them
	// in plain.
	Keyring *seal.Keyring

	// Routes are the routes this process knows, by id. Effects of others are left
	// alone.
	Routes map[int32]EffectRoute

	// Routing is what [RegisterRouting] returned for the targets of the routes; with 0 other
	// processes do not know where the attempts of this process were sent.
	Routing int32

	// Node names this process in the attempts it makes.
	Node string

	// Standbys have received an effect before it is sent to a target that cannot deduplicate. It may be nil.
	Standbys Standbys

	// Group bounds how many effects one statement claims or settles. It defaults
	// to 256.
	Group int

	// Flushers is how many such statements of a sort may be under way at once. It
	// defaults to 1: more commits carry fewer rows each.
	Flushers int

	// Timeout bounds one such statement. It defaults to a third of the shortest lease,
	// from 2 s to 10 s.
	Timeout time.Duration

	// EvidenceOf returns, from the bytes that were sent, the text to keep as the result of an
	// effect that a person or a probe finds to have happened, such as the Message-ID of a
	// message. If it returns nil, or is nil, nothing is kept.
	EvidenceOf func(rendered []byte) []byte

	// Now measures how long groups take, nothing else. It defaults to time.Now.
	Now func() time.Time

	// Paused reports whether an operator has paused a route or its target. The effects of such a route are not claimed. It is
	// asked for each claim, so it must be quick. nil means never.
	Paused func(routeID int32) bool

	// Locked is called for a stream that another session keeps locked, so that its effects
	// cannot proceed: at most once a minute for each stream. It may be nil.
	Locked func(context.Context, LockedStream)

	// Random draws the jitter of the waits after lost attempts, in [0, 1). It
	// defaults to math/rand/v2's.
	Random func() float64
}

// Effects is the store of effects: it claims them, settles them and gives the dead ones new
// attempts. All times are the database's.
type Effects struct {
	pool     *pgxpool.Pool
	enqueuer Enqueuer
	keys     *seal.Keyring
	routes   map[int32]EffectRoute
	routing  int32
	routings sync.Map // routings of other processes: from their ids to the targets by route
	node     string
	standbys Standbys
	evidence func(rendered []byte) []byte
	random   func() float64
	now      func() time.Time
	paused   func(routeID int32) bool

	outside   knownRoutes // unordered routes whose effects are claimed in groups
	inOrder   knownRoutes // ordered ones
	unordered []int32
	order     OrderCounters
	locked    lockedStreams
	patience  chan struct{} // limits how many wait a moment for their streams

	claims    row.Group[claimAsk, claimAnswer]
	starts    row.Group[sendStart, sendStartRow]
	owns      row.Group[ownAsk, Owner]
	postpones row.Group[postponement, struct{}]
	acts      map[int32]*row.Group[GroupedAct, GroupedEnd] // by route
	// orderedActs are for ordered routes, whose effects are claimed before.
	orderedActs map[int32]*row.Group[OrderedAct, Settled]
	settles     row.Group[Settlement, Settled]

	heldMu sync.Mutex // guards heldAt
	heldAt heldCursor

	pulledTo   pullBackCursor
	pulledBack atomic.Uint64

	unnumbered        row.Group[claimAsk, claimAnswer]
	ordered           row.Group[orderAsk, claimAnswer]
	orderedSettles    row.Group[Settlement, Settled]
	continuations     row.Group[continuation, Settled]
	continueStatement string // the statement
}

// NewEffects makes an Effects, or reports everything that is wrong with cfg.
func NewEffects(cfg EffectsConfig) (*Effects, error) {
	var errs []error
	if cfg.Pool == nil {
		errs = append(errs, errors.New("effects need a pool"))
	}
	if cfg.Enqueuer == nil {
		errs = append(errs, errors.New("effects need an enqueuer"))
	}
	if cfg.Node == "" {
		errs = append(errs, errors.New("effects need the name of the node"))
	}
	e := &Effects{pool: cfg.Pool, enqueuer: cfg.Enqueuer, keys: cfg.Keyring, node: cfg.Node, standbys: cfg.Standbys, routing: cfg.Routing, evidence: cfg.EvidenceOf, routes: make(map[int32]EffectRoute, len(cfg.Routes))}
	for id, r := range cfg.Routes {
		if err := r.Retry.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("route %d: %w", id, err))
		}
		if r.Lease == 0 {
			r.Lease = DefaultLease
		}
		if r.Rearms == 0 {
			r.Rearms = DefaultRearms
		}
		if r.KeyKeep == 0 {
			r.KeyKeep = DefaultKeyKeep
		}
		if r.KeyWindow < 0 || r.KeyKeep < 0 || r.KeyWithin < 0 || r.KeyWithin > r.KeyKeep {
			errs = append(errs, fmt.Errorf("route %d: the windows of keys must not be negative, and keep not less than within", id))
		}
		if err := r.Order.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("route %d: %w", id, err))
		}
		r.Order = r.Order.WithDefaults()
		e.routes[id] = r
		switch {
		case r.Order.Ordered():
			e.inOrder.add(id, r.Lease)
		case !r.InDatabase:
			e.outside.add(id, r.Lease)
		}
	}
	e.unordered = unorderedRoutes(e.routes)
	if e.now = cfg.Now; e.now == nil {
		e.now = time.Now
	}
	if e.paused = cfg.Paused; e.paused == nil {
		e.paused = func(int32) bool { return false }
	}
	if e.standbys == nil {
		e.standbys = (*session.Standbys)(nil)
	}
	e.locked.tell, e.locked.now, e.patience = cfg.Locked, e.now, make(chan struct{}, 2)
	if e.random = cfg.Random; e.random == nil {
		e.random = rand.Float64
	}
	size, flushers, timeout := max(cfg.Group, 0), max(cfg.Flushers, 1), cfg.Timeout
	if size == 0 {
		size = 256
	}
	if timeout <= 0 {
		timeout = 10 * time.Second
		for _, r := range e.routes {
			timeout = min(timeout, max(r.Lease/3, 2*time.Second))
		}
	}
	// Effects that are claimed together are settled at about the same time.
	e.claims = row.Group[claimAsk, claimAnswer]{Run: e.claimGroup, Size: size, Flushers: flushers, Apart: claimInterval, Timeout: timeout}
	e.starts = row.Group[sendStart, sendStartRow]{Run: e.startGroup, Size: size, Flushers: flushers, Timeout: timeout}
	e.postpones = row.Group[postponement, struct{}]{Run: e.postponeGroup, Size: size, Flushers: flushers, Timeout: timeout}
	e.owns = row.Group[ownAsk, Owner]{Run: e.ownGroup, Size: size, Flushers: flushers, Timeout: timeout}
	e.acts, e.orderedActs = map[int32]*row.Group[GroupedAct, GroupedEnd]{}, map[int32]*row.Group[OrderedAct, Settled]{}
	for id, r := range e.routes {
		if r.InDatabase {
			// A group's transaction keeps its locks until all of it has acted.
			limit := max(timeout, r.Lease/2)
			var known knownRoutes
			known.add(id, r.Lease)
			acts := &row.Group[GroupedAct, GroupedEnd]{Size: minGroup, Flushers: 2, Timeout: limit}
			runTogether(e, acts, func(ctx context.Context, conn *pgx.Conn, asks []GroupedAct) ([]GroupedEnd, bool, error) {
				return e.actTogether(ctx, conn, known, asks)
			})
			ordered := &row.Group[OrderedAct, Settled]{Size: minGroup, Flushers: 2, Timeout: limit}
			runTogether(e, ordered, e.actInStreams)
			e.acts[id], e.orderedActs[id] = acts, ordered
		}
	}
	e.settles = row.Group[Settlement, Settled]{Run: e.settleGroup, Size: size, Flushers: flushers, Timeout: timeout}
	e.unnumbered = row.Group[claimAsk, claimAnswer]{Size: size, Flushers: flushers, Timeout: timeout, Run: func(ctx context.Context, asks []claimAsk) ([]claimAnswer, error) {
		return e.claimEffects(ctx, e.pool, e.running(e.inOrder), asks)
	}}
	e.ordered = row.Group[orderAsk, claimAnswer]{Run: e.claimOrdered, Size: size, Flushers: flushers, Timeout: timeout}
	e.orderedSettles = row.Group[Settlement, Settled]{Run: e.settleOrderedGroup, Size: size, Flushers: flushers, Timeout: timeout}
	e.continueStatement, e.continuations = continueInStreams, row.Group[continuation, Settled]{Run: e.continueGroup, Size: size, Flushers: flushers, Timeout: timeout}
	return e, errors.Join(errs...)
}

// Route returns what the store knows about a route; ok is false for one that this process does
// not know.
func (e *Effects) Route(id int32) (route EffectRoute, ok bool) {
	route, ok = e.routes[id]
	return route, ok
}

// Paused reports whether the effects of a route wait because an operator has paused it or its target.
func (e *Effects) Paused(routeID int32) bool { return e.paused(routeID) }

// running returns the routes that are not paused now.
func (e *Effects) running(known knownRoutes) knownRoutes {
	if !slices.ContainsFunc(known.ids, e.paused) {
		return known
	}
	var out knownRoutes
	for i, id := range known.ids {
		if !e.paused(id) {
			out.ids, out.leases = append(out.ids, id), append(out.leases, known.leases[i])
		}
	}
	return out
}

// Routes returns all routes that the store knows, by id.
func (e *Effects) Routes() map[int32]EffectRoute { return maps.Clone(e.routes) }

// Enqueuer returns the enqueuer with which the store makes jobs.
func (e *Effects) Enqueuer() Enqueuer { return e.enqueuer }

// Pool returns the connections of the store.
func (e *Effects) Pool() *pgxpool.Pool { return e.pool }

// Evidence returns, from the bytes that were sent, the text to keep as the result of an effect that happened. It is nil
// if nothing is kept.
func (e *Effects) Evidence(rendered []byte) []byte {
	if e.evidence == nil {
		return nil
	}
	return e.evidence(rendered)
}

// KeepsEvidence reports whether [Effects.Evidence] may return anything.
func (e *Effects) KeepsEvidence() bool { return e.evidence != nil }

// Keyring returns the keys under which the store seals; nil if it seals nothing.
func (e *Effects) Keyring() *seal.Keyring { return e.keys }

// knownRoutes are routes as parallel arrays, the form a statement takes them in.
type knownRoutes struct {
	ids    []int32
	leases []int64 // microseconds
}

func (k *knownRoutes) add(id int32, lease time.Duration) {
	k.ids = append(k.ids, id)
	k.leases = append(k.leases, lease.Microseconds())
}
