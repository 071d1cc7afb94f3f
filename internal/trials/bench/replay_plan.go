package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/oncegate/oncegate/internal/drill/rig"
	"github.com/oncegate/oncegate/internal/trials/lab"
)

// backlog records n events whose effects are not carried out.
func (r *replays) backlog(ctx context.Context, n int) error {
	const empty = `TRUNCATE oncegate.inbox_event, oncegate.inbox_body, oncegate.effect, oncegate.effect_attempt, oncegate.river_job, oncegate.replay, oncegate.replay_item, oncegate.replay_outcome`
	if _, err := r.db.Exec(ctx, empty); err != nil {
		return fmt.Errorf("emptying the tables: %w", err)
	}
	receiver, err := r.serve(ctx, r.config, "receive")
	if err != nil {
		return err
	}
	r.runs++
	if err := deliver(ctx, receiver.Public, r.runs, n); err != nil {
		return err
	}
	return receiver.Stop(30 * time.Second)
}

// makeDeadLetters turns every effect into a dead letter, as an outage would. Effects of live deliveries that are under
// way are left alone.
func (r *replays) makeDeadLetters(ctx context.Context) error {
	for _, statement := range []string{
		`DELETE FROM oncegate.river_job WHERE state <> 'running'`,
		`DELETE FROM oncegate.effect_attempt`,
		`UPDATE oncegate.effect SET state = 'dead', reason = 'attempts_exhausted', attempts = 12, next_at = NULL, finished_at = NULL, last_code = '503'
			WHERE state <> 'claimed'`,
	} {
		if _, err := r.db.Exec(ctx, statement); err != nil {
			return fmt.Errorf("making dead letters: %w", err)
		}
	}
	return r.checkpoint(ctx)
}

// planned is a plan, as the command returned it.
type planned struct {
	id, digest string
	items      int
	took       time.Duration
	memory     int64
}

// plan plans a replay of everything that is dead.
func (r *replays) plan(ctx context.Context) (planned, error) {
	var out planned
	var told struct {
		ID      string `json:"id"`
		Digest  string `json:"digest"`
		Summary struct {
			Items int `json:"items"`
		} `json:"summary"`
	}
	began := time.Now()
	text, memory, err := r.runCommand(ctx, "replay", "plan", "--all")
	if err != nil {
		return out, err
	}
	out.took, out.memory = time.Since(began), memory
	if err := json.Unmarshal(text, &told); err != nil {
		return out, fmt.Errorf("reading the plan: %w", err)
	}
	out.id, out.digest, out.items = told.ID, told.Digest, told.Summary.Items
	return out, nil
}

func (r *replays) run(ctx context.Context, p planned, rate float64) error {
	_, _, err := r.runCommand(ctx, "replay", "run", p.id, "--digest", p.digest, "--reason", "benchmark", "--rate", strconv.FormatFloat(rate, 'f', 0, 64))
	return err
}

// cancel cancels a replay, and fails if the replay has ended already.
func (r *replays) cancel(ctx context.Context, p planned) error {
	var running bool
	if err := r.db.QueryRow(ctx, `SELECT state = 'running' FROM oncegate.replay WHERE id = $1`, p.id).Scan(&running); err != nil {
		return fmt.Errorf("reading the replay: %w", err)
	}
	if !running {
		return fmt.Errorf("the replay ended before the measurement did: %d items are too few", p.items)
	}
	_, _, err := r.runCommand(ctx, "replay", "cancel", p.id, "--reason", "benchmark")
	return err
}

// runCommand runs a command to its end and returns what it wrote and its largest memory.
func (r *replays) runCommand(ctx context.Context, args ...string) (out []byte, memory int64, err error) {
	cmd := exec.CommandContext(ctx, r.Binary, append(args, "--config", r.config, "--output", "json")...) //nolint:gosec // the binary that was built
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "DATABASE_URL=" + r.DSN(), "STRIPE_SECRET=" + secretValue, "ONCEGATE_ACTOR=bench"}
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return nil, 0, fmt.Errorf("starting %v: %w", args, err)
	}
	if err := cmd.Start(); err != nil {
		return nil, 0, fmt.Errorf("starting %v: %w", args, err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		out, _ = io.ReadAll(pipe) // a broken pipe shows in how the command ended
	}()
	for running := true; running; {
		select {
		case <-done:
			running = false
		case <-time.After(20 * time.Millisecond):
		}
		if n, err := lab.PeakRSS(cmd.Process.Pid); err == nil { // the process may have just ended
			memory = max(memory, n)
		}
	}
	if err := cmd.Wait(); err != nil {
		return nil, 0, fmt.Errorf("oncegate %v: %w: %s", args, err, complaints.String())
	}
	return out, memory, nil
}

// waitUntilTrue waits until a query returns true.
func (r *replays) waitUntilTrue(ctx context.Context, query string) error {
	return rig.Poll(ctx, 100*time.Millisecond, 5*time.Minute, "the replay", func() (yes bool, err error) {
		err = r.db.QueryRow(ctx, query).Scan(&yes)
		return yes, err
	})
}

func (r *replayReport) writeTable(w io.Writer) error {
	verdict := ""
	if r.Dead >= 100_000 {
		verdict = fmt.Sprintf("; target <= %d s: met", maxPlanSeconds)
		if r.PlanSeconds > maxPlanSeconds {
			verdict = fmt.Sprintf("; target <= %d s: missed", maxPlanSeconds)
		}
	}
	fmt.Fprintf(w, "\n%s Bodies of 2 KiB; the target of forward shares the machine.\n\n", r.server())
	fmt.Fprintf(w, "Planning %d dead letters, with what would be sent of each: %.1f s (%.0f/s), at most %d MiB in the process%s\n",
		r.Dead, r.PlanSeconds, float64(r.Dead)/r.PlanSeconds, r.PlanMemory>>20, verdict)
	for _, x := range []struct {
		name   string
		values []float64
		unit   string
	}{
		{"live effects", r.Live, "/s"}, {"replayed effects, unpaced", r.Replayed, "/s"},
		{"p99 of acknowledgements", r.Bare, " ms"}, {"p99 while a replay runs", r.With, " ms"},
		{fmt.Sprintf("which was given %.0f/s and took", r.Rate), r.Attained, "/s"},
		{"processors busy without it", r.BareBusy, "  "}, {"processors busy with it", r.WithBusy, "  "},
	} {
		if s := newSpread(x.values); len(x.values) > 0 {
			fmt.Fprintf(w, "  %-36s %8.2f%s  (%.2f to %.2f)\n", x.name, s.median, x.unit, s.min, s.max)
		}
	}
	if err := writeRatios(w, r.Ratios); err != nil {
		return err
	}
	return nil
}
