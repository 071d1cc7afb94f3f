package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// replayOptions are the flags of the benchmark of replays.
type replayOptions struct {
	output   output
	dead     int
	rounds   int
	items    int
	pairs    int
	runFor   time.Duration
	liveRate float64
}

func parseReplay(args []string) (replayOptions, error) {
	var o replayOptions
	var quick bool
	flags := flag.NewFlagSet("bench replay", flag.ContinueOnError)
	flags.BoolVar(&quick, "quick", false, "a minute: 10,000 dead letters, one round, one pair of 5 s")
	flags.Var(&o.output, "output", "table or json")
	flags.IntVar(&o.dead, "dead", 100_000, "dead letters that are planned")
	flags.IntVar(&o.rounds, "rounds", 7, "how often replayed and live effects are measured")
	flags.IntVar(&o.items, "effects", 30_000, "of each of those")
	flags.IntVar(&o.pairs, "pairs", 7, "how often acknowledgements are measured with a replay and without")
	flags.DurationVar(&o.runFor, "each", 20*time.Second, "how long each half of a pair is")
	flags.Float64Var(&o.liveRate, "live", 1000, "live deliveries a second meanwhile")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if quick {
		o.dead, o.rounds, o.items, o.pairs, o.runFor, o.liveRate = 10_000, 1, 3000, 1, 5*time.Second, 300
	}
	if o.dead < 100 || o.rounds < 1 || o.items < 100 || o.pairs < 0 || o.runFor < time.Second || o.liveRate < 1 || flags.NArg() > 0 {
		return o, errors.New("--dead and --effects are at least 100, --rounds and --live at least 1, --each at least 1s, and there are no arguments")
	}
	return o, nil
}

// replayReport is the result of the benchmark of replays.
type replayReport struct {
	reportRun

	// The number of dead letters that were planned, how long that took, and the planning process's largest memory.
	Dead        int     `json:"dead_letters"`
	PlanSeconds float64 `json:"plan_seconds"`
	PlanMemory  int64   `json:"plan_peak_rss_bytes"`

	// Effects a second, round by round.
	Live     []float64 `json:"live_per_second"`
	Replayed []float64 `json:"replayed_per_second"`

	// The 99th percentile of acknowledgements in milliseconds, pair by pair; the rate that was set for the replay;
	// and the rate that it reached during the deliveries, which take precedence.
	Rate     float64   `json:"replay_rate"`
	Attained []float64 `json:"replay_attained_per_second"`
	Bare     []float64 `json:"p99_ms_without_replay"`
	With     []float64 `json:"p99_ms_with_replay"`

	// How many processors Oncegate and PostgreSQL kept busy meanwhile.
	BareBusy []float64 `json:"processors_without_replay"`
	WithBusy []float64 `json:"processors_with_replay"`

	Ratios []ratio `json:"ratios"`
}

// maxPlanSeconds is the target: how long planning 100,000 dead letters may take.
const maxPlanSeconds = 10

// replays is the testbed of drains with what replays need.
type replays struct {
	drains
	replayOptions
	config string
	report *replayReport
}

// measureReplay measures how fast replays are planned, how fast their effects are carried out without a limit,
// compared with the same effects live, and how much a replay slows acknowledgements down.
func measureReplay(ctx context.Context, args []string) error {
	o, err := parseReplay(args)
	if err != nil {
		return err
	}
	return onTestbed(ctx, o.output, func(s *testbed) (report, error) {
		r := &replays{
			drains: drains{effectsOptions: effectsOptions{effects: o.items}, testbed: s}, replayOptions: o,
			report: &replayReport{Dead: o.dead},
		}
		if err := r.setUp(ctx); err != nil {
			return nil, err
		}
		defer r.target.Close()
		target := fmt.Sprintf("{ kind: forward, url: \"http://%s/\", idempotent: true }", r.target.Address)
		if r.config, err = r.WriteFile("replay.yml", fmt.Sprintf(drainConfiguration, target, subjectForward)); err != nil {
			return nil, err
		}
		for _, part := range []func(context.Context) error{r.measurePlanning, r.measureRunning, r.measureDisturbance} {
			if err := part(ctx); err != nil {
				return nil, err
			}
		}
		return r.report, nil
	})
}

// measurePlanning plans the dead letters once, as an operator does.
func (r *replays) measurePlanning(ctx context.Context) error {
	if err := r.backlog(ctx, r.dead); err != nil {
		return err
	}
	if err := r.makeDeadLetters(ctx); err != nil {
		return err
	}
	plan, err := r.plan(ctx)
	if err != nil {
		return err
	}
	if plan.items != r.dead {
		return fmt.Errorf("%d of %d dead letters were planned", plan.items, r.dead)
	}
	r.report.PlanSeconds, r.report.PlanMemory = plan.took.Seconds(), plan.memory
	progress("planned %d dead letters in %.1f s, %d MiB", r.dead, plan.took.Seconds(), plan.memory>>20)
	return nil
}

// measureRunning has the same effects carried out twice in each round: as they are delivered, and as a replay.
func (r *replays) measureRunning(ctx context.Context) error {
	for round := range r.rounds {
		live := drained{}
		subject := drainSubject{name: subjectForward, target: fmt.Sprintf("{ kind: forward, url: \"http://%s/\", idempotent: true }", r.target.Address)}
		if err := r.measureDrain(ctx, subject, &live); err != nil {
			return err
		}
		if err := r.makeDeadLetters(ctx); err != nil {
			return err
		}
		perSecond, err := r.replay(ctx)
		if err != nil {
			return err
		}
		r.report.Live, r.report.Replayed = append(r.report.Live, live.PerSecond[0]), append(r.report.Replayed, perSecond)
		progress("round %d of %d  live %8.0f/s  replayed %8.0f/s", round+1, r.rounds, live.PerSecond[0], perSecond)
	}
	if x, ok := newRatio("replayed / live effects a second, unpaced", r.report.Replayed, r.report.Live, .8, 0); ok {
		r.report.Ratios = append(r.report.Ratios, x)
	}
	return nil
}

// The query runs while the time counts. It looks at effects only when the replay has ended, because their index still
// leads through all rows that have left it.
const allReplayed = `
SELECT CASE WHEN EXISTS (SELECT FROM oncegate.replay WHERE state = 'running') THEN false
    ELSE NOT EXISTS (SELECT FROM oncegate.effect WHERE next_at IS NOT NULL) END`

// replay replays everything that is dead, and returns the rate.
func (r *replays) replay(ctx context.Context) (perSecond float64, err error) {
	plan, err := r.plan(ctx)
	if err != nil {
		return 0, err
	}
	worker, err := r.serve(ctx, r.config, "work")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, worker.Stop(30*time.Second)) }()
	if err := r.run(ctx, plan, 0); err != nil {
		return 0, err
	}
	if err := r.waitUntilTrue(ctx, allReplayed); err != nil {
		return 0, err
	}
	var done int
	var seconds float64
	if err := r.db.QueryRow(ctx, effectSpan).Scan(&done, &seconds); err != nil {
		return 0, fmt.Errorf("reading the times: %w", err)
	}
	if done != r.items {
		return 0, fmt.Errorf("%d of %d were replayed", done, r.items)
	}
	return float64(done) / seconds, nil
}

// measureDisturbance measures acknowledgements in pairs: with a replay at half of its possible rate, and without one.
// Which comes first changes from pair to pair.
func (r *replays) measureDisturbance(ctx context.Context) error {
	if r.pairs == 0 {
		return nil
	}
	r.report.Rate = median(r.report.Replayed) / 2
	wanted := int(r.report.Rate * (r.runFor + 10*time.Second).Seconds())
	if err := r.backlog(ctx, max(wanted, 100)); err != nil {
		return err
	}
	p, err := r.serve(ctx, r.config, "receive,work")
	if err != nil {
		return err
	}
	defer func() { _ = p.Stop(30 * time.Second) }() // its figures have been read before
	for pair := range r.pairs {
		for half := range 2 {
			with := (pair+half)%2 == 0
			p99, busy, err := r.measureAcknowledgements(ctx, p, with)
			if err != nil {
				return err
			}
			if with {
				r.report.With, r.report.WithBusy = append(r.report.With, p99), append(r.report.WithBusy, busy)
			} else {
				r.report.Bare, r.report.BareBusy = append(r.report.Bare, p99), append(r.report.BareBusy, busy)
			}
		}
		progress("pair %d of %d  p99 without %.1f ms, with %.1f ms beside %.0f/s", pair+1, r.pairs, r.report.Bare[pair], r.report.With[pair], r.report.Attained[pair])
	}
	if x, ok := newRatio("p99 of acknowledgements, with a replay / without", r.report.With, r.report.Bare, 0, 1.5); ok {
		r.report.Ratios = append(r.report.Ratios, x)
	}
	return nil
}

// replayRate is how many items a second a replay acted on in the time that was just measured.
func (r *replays) replayRate(ctx context.Context, p planned) (perSecond float64, err error) {
	var items int
	const taken = `SELECT count(*) FROM oncegate.replay_outcome WHERE replay_id = $1 AND acted_at > now() - make_interval(secs => $2)`
	if err := r.db.QueryRow(ctx, taken, p.id, r.runFor.Seconds()).Scan(&items); err != nil {
		return 0, fmt.Errorf("counting what was replayed: %w", err)
	}
	return float64(items) / r.runFor.Seconds(), nil
}

// measureAcknowledgements measures one half of a pair.
func (r *replays) measureAcknowledgements(ctx context.Context, p *rig.Node, with bool) (p99, busy float64, err error) {
	if err := r.makeDeadLetters(ctx); err != nil {
		return 0, 0, err
	}
	var plan planned
	if with {
		if plan, err = r.plan(ctx); err != nil {
			return 0, 0, err
		}
		if err := r.checkpoint(ctx); err != nil { // so that what planning wrote is not written out during the run
			return 0, 0, err
		}
		if err := r.run(ctx, plan, r.report.Rate); err != nil {
			return 0, 0, err
		}
		defer func() { err = errors.Join(err, r.cancel(ctx, plan)) }()
	}
	r.runs++
	var before, after time.Duration
	var err1, err2 error
	out, err := generate(ctx, p.Public, r.runs, workload{
		connections: openConnections, kind: onlyNew, bodySize: bodySize, warmUp: time.Second, measured: r.runFor, rate: r.liveRate,
	}, func() { before, err1 = r.cpuTime(p.Process) }, func() { after, err2 = r.cpuTime(p.Process) })
	if err := errors.Join(err, err1, err2); err != nil {
		return 0, 0, err
	}
	if with {
		perSecond, err := r.replayRate(ctx, plan)
		if err != nil {
			return 0, 0, err
		}
		r.report.Attained = append(r.report.Attained, perSecond)
	}
	if out.failed > 0 || out.acked() == 0 {
		return 0, 0, fmt.Errorf("%d deliveries were acknowledged, %d failed (log: %s)", out.acked(), out.failed, rig.TailFile(r.log("receive,work")))
	}
	return out.quantile(.99), (after - before).Seconds() / r.runFor.Seconds(), nil
}
