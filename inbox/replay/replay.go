package replay

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/archive"
	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/inbox/reasons"
)

// Options say what a plan includes in addition to dead effects.
type Options struct {
	// IncludeDone replays effects that happened. It requires NewKey, because a target
	// would recognise the old key.
	IncludeDone bool `json:"include_done,omitempty"`

	// IncludeIndeterminate replays effects that may have happened, and forgets since
	// when that is so. They may happen twice.
	IncludeIndeterminate bool `json:"include_indeterminate,omitempty"`

	// IncludeDiscarded replays effects that an operator discarded, and messages of a list that an operator cancelled.
	IncludeDiscarded bool `json:"include_discarded,omitempty"`

	// IncludeCalledAgain replays an effect of an operation that a later call repeats
	// ([LeftOutCalledAgain]). An operator decides this for one effect at a time: the
	// scope must be its id.
	IncludeCalledAgain bool `json:"include_called_again,omitempty"`

	// IncludeShadow evaluates again the effects that were skipped in shadow mode. They stay in shadow mode.
	IncludeShadow bool `json:"include_shadow,omitempty"`

	// CarryOutShadow carries out effects that were recorded in shadow mode, and so ends that mode for them. Use it only
	// for effects that the handler before Oncegate has not carried out. It leaves out the effects of a source that is still in shadow mode.
	CarryOutShadow bool `json:"carry_out_shadow,omitempty"`

	// NewKey replays every effect under a new idempotency key and renders it again.
	NewKey bool `json:"new_key,omitempty"`

	// NewRoutes creates effects for routes that take the events today and did not when
	// they arrived. It requires a judge.
	NewRoutes bool `json:"new_routes,omitempty"`
}

// skipped returns the reasons of the skipped effects that the options include.
func (o *Options) skipped() []string {
	var out []string
	if o.IncludeDiscarded {
		out = append(out, string(reasons.Discarded), string(reasons.Cancelled))
	}
	if o.IncludeShadow || o.CarryOutShadow {
		out = append(out, string(reasons.Shadow), string(reasons.ShadowFailed))
	}
	return out
}

// includesSkipped reports whether the options include effects that were skipped for the reason.
func (o *Options) includesSkipped(reason reasons.Reason) bool {
	return slices.Contains(o.skipped(), string(reason))
}

// Replay is a plan and the progress of its run.
type Replay struct {
	ID      inbox.ID `json:"id"`
	State   State    `json:"state"`
	Scope   Scope    `json:"scope"`
	Options Options  `json:"options"`
	Summary Summary  `json:"summary"`

	// Digest is the SHA-256 over the items, in hex; empty while planning.
	Digest string `json:"digest,omitempty"`
	// Actor made the plan. Reason is why it was made or, once it runs, why it runs.
	Actor  string `json:"actor"`
	Reason string `json:"reason,omitempty"`
	// Rate is how many items a second a run takes; 0 is as many as it can.
	Rate float32 `json:"rate,omitempty"`

	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
	StartedAt *time.Time `json:"started_at,omitempty"`
	// FinishedAt is when the last effect ended, or when the replay was cancelled or expired.
	FinishedAt *time.Time `json:"finished_at,omitempty"`

	// Now is the database's time when this was read.
	Now time.Time `json:"-"`

	// position is the last item that a run has taken. jobID is the job that works on the replay.
	position, jobID int64

	// wait is how long the rate delays the next step; less than 0 if that step is late.
	wait time.Duration
}

// Tag names the state of the replay that a decision about it is made on: its items and whether it runs. It does not change
// with the progress of a run.
func (r *Replay) Tag() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", []any{"replay", r.ID, r.State, r.Digest}))
	return hex.EncodeToString(sum[:8])
}

// Left returns how many items a run has still to take.
func (r *Replay) Left() int { return r.Summary.ToDo - r.Summary.Acted() }

// Nothing says in one line why a plan that is limited to a run or to a label has no items. It is empty for any other plan.
func (r *Replay) Nothing() string {
	switch s := &r.Scope; {
	case r.State == Planning || r.Summary.Items > 0 || s.OfRun() == "":
		return ""
	case r.Summary.NoEvents:
		return "no event has the " + s.OfRun()
	case s.Label != nil:
		return "the events with the " + s.OfRun() + " have nothing at rest that the plan takes"
	default:
		return s.OfRun() + " has nothing at rest that the plan takes, or there is no such run"
	}
}

// ETA returns how long the rest of a running replay will take at the pace so far, but not
// less than its rate allows. ok is false if that is not known yet.
func (r *Replay) ETA() (left time.Duration, ok bool) {
	if r.State != Running || r.StartedAt == nil {
		return 0, false
	}
	if r.Rate > 0 {
		left, ok = time.Duration(float64(r.Left())/float64(r.Rate)*float64(time.Second)), true
	}
	if acted, elapsed := r.Summary.Acted(), r.Now.Sub(*r.StartedAt); acted > 0 && elapsed >= time.Second {
		left, ok = max(left, time.Duration(float64(elapsed)*float64(r.Left())/float64(acted))), true
	}
	return left.Round(time.Second), ok
}

// Config configures a [Store]. Pool and Store are required.
type Config struct {
	// Pool runs plans. A plan uses two connections, and up to two more for each goroutine
	// that judges: one for each processor, or fewer if the pool is small. Without a judge two
	// connections are enough; with a judge there must be three.
	Pool *pgxpool.Pool

	// Store settles the effects and enqueues their wake-ups. It must know the routes, so
	// that it can wake the effects that wait for them.
	Store *inbox.Effects

	// Judge says what today's configuration would do. Without it a plan has no
	// verdicts and no new routes. Only Plan calls it.
	Judge Judge

	// Archive has bodies that prune has removed. Plan reads them; nil has none.
	Archive *archive.Archive

	// Expiry is how long a plan may be run. 0 is the default of 1 h.
	Expiry time.Duration

	// Page is how many items one transaction plans, and Chunk how many one step runs.
	// They default to 500 each.
	Page, Chunk int

	// ListBudget is how long a list is searched before it answers with what it has; 0 is [read.ListBudget].
	ListBudget time.Duration
}

// Store plans and runs replays. A replay is stored in rows, so any process can take its
// next step, and only one does. All times are the database's.
type Store struct {
	pool   *pgxpool.Pool
	store  *inbox.Effects
	judge  Judge
	arch   *archive.Archive
	expiry time.Duration
	page   int
	chunk  int
	budget time.Duration // of a list
}

// New makes a Store, or reports what is wrong with cfg.
func New(cfg Config) (*Store, error) {
	if cfg.Pool == nil || cfg.Store == nil {
		return nil, errors.New("replays need a pool and the store of effects")
	}
	if cfg.Expiry < 0 || cfg.Page < 0 || cfg.Chunk < 0 {
		return nil, errors.New("the expiry, page and chunk of replays must not be negative")
	}
	r := &Store{pool: cfg.Pool, store: cfg.Store, judge: cfg.Judge, arch: cfg.Archive, expiry: cfg.Expiry, page: cfg.Page, chunk: cfg.Chunk, budget: cfg.ListBudget}
	if r.expiry == 0 {
		r.expiry = time.Hour
	}
	if r.page == 0 {
		r.page = 500
	}
	if r.chunk == 0 {
		r.chunk = 500
	}
	return r, nil
}

const replayColumns = `
id, ` + presentState + `, scope, options, summary, digest, actor, coalesce(reason, ''), coalesce(rate, 0), created_at, expires_at, started_at,
    CASE WHEN ` + hasEnded + ` THEN ` + lastEnd + ` ELSE finished_at END, now(), position, coalesce(job_id, 0), coalesce((extract(epoch FROM next_at - now()) * 1000000)::bigint, 0)`

func scanReplay(row pgx.CollectableRow) (Replay, error) {
	var r Replay
	var scope, options, summary, digest []byte
	var expires, started, finished pgtype.Timestamptz
	var wait int64
	err := row.Scan(&r.ID, &r.State, &scope, &options, &summary, &digest, &r.Actor, &r.Reason, &r.Rate, &r.CreatedAt,
		&expires, &started, &finished, &r.Now, &r.position, &r.jobID, &wait)
	if err != nil {
		return r, err
	}
	r.wait = time.Duration(wait) * time.Microsecond
	r.Digest = hex.EncodeToString(digest)
	for at, to := range map[*pgtype.Timestamptz]**time.Time{&expires: &r.ExpiresAt, &started: &r.StartedAt, &finished: &r.FinishedAt} {
		if at.Valid {
			*to = &at.Time
		}
	}
	for text, to := range map[*[]byte]any{&scope: &r.Scope, &options: &r.Options, &summary: &r.Summary} {
		if err := json.Unmarshal(*text, to); err != nil {
			return r, fmt.Errorf("reading replay %s: %w", r.ID, err)
		}
	}
	return r, nil
}

const readReplay = `SELECT ` + replayColumns + ` FROM replay WHERE id = $1`

// A step locks the replay's row first, before any event, so that the steps of one replay
// never overlap.
const lockReplay = readReplay + ` FOR UPDATE`

func oneReplay(ctx context.Context, db row.Querier, sql string, id inbox.ID) (*Replay, error) {
	rows, err := db.Query(ctx, sql, id)
	if err != nil {
		return nil, err
	}
	r, err := pgx.CollectExactlyOneRow(rows, scanReplay)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("replay %s: %w", id, inbox.ErrNotFound)
	}
	return &r, err
}

// Status returns a replay, or [inbox.ErrNotFound] if there is none.
func (r *Store) Status(ctx context.Context, id inbox.ID) (*Replay, error) {
	out, err := oneReplay(ctx, r.pool, readReplay, id)
	if err != nil {
		return nil, fmt.Errorf("reading a replay: %w", err)
	}
	return out, nil
}
