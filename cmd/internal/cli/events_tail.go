package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/control"
	"github.com/oncegate/oncegate/internal/visible"
)

// tailEvery is the interval at which a tail reads new rows.
const tailEvery = time.Second

// tailFlags are the flags of `events tail`.
type tailFlags struct {
	Source string    `flag:"--source only this source"`
	Tenant string    `flag:"--tenant only this tenant"`
	Type   string    `flag:"--type only this event type"`
	Route  string    `flag:"--route only events with an effect of this route"`
	State  string    `flag:"--state only this state:"`
	Since  time.Time `flag:"--since only those received since"`
	From   string    `flag:"--from continue where another tail ended, by the ''cursor'' that it printed"`
}

func (s *shell) eventsTailCommand() *cobra.Command {
	var f tailFlags
	cmd := &cobra.Command{
		Use: "tail", Short: "Show events as they are recorded, and effects as they end", Args: cobra.NoArgs,
		Long: "Show events as they are recorded, and effects as they end or are tried again, until Ctrl-C or SIGTERM. At\n" +
			"the end it prints a cursor on stderr: --from continues there and shows every event once. After a busy\n" +
			"minute the cursor would be too long. The next tail then shows some events again, and the command prints\n" +
			"their number.\n\n" +
			"Each look reads the last 15 seconds again, since events are not committed in the order of their ids. With\n" +
			"--state in a state of effects, only effects that come into it are shown. With --output json there is one\n" +
			"object on each line: {\"event\": ...}, {\"effect\": ...}, and at the end {\"cursor\": ...}.",
		Example: "  oncegate events tail\n" +
			"  oncegate events tail --since 10m --source stripe\n" +
			"  oncegate events tail --state dead --json",
	}
	readFlags := requestFlags(cmd, &f)
	restrict(cmd, "state", append(control.EffectStates(), control.Admissions()...))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := readFlags(); err != nil {
			return err
		}
		if f.From != "" && !f.Since.IsZero() {
			return usagef("--from and --since exclude each other")
		}
		filter := tailFilter{source: f.Source, tenant: f.Tenant, kind: f.Type, route: f.Route}
		if slices.Contains(control.Admissions(), f.State) {
			filter.admission = f.State
		} else {
			filter.effectState = f.State
		}
		return s.control(cmd.Context(), "", func(caller control.Caller) error {
			t := newTail(caller, filter)
			if f.From != "" && !t.resume(f.From) {
				return usagef("--from %q is not a cursor that `oncegate events tail` printed", clean(f.From))
			}
			if f.From == "" {
				t.floor = f.Since
			}
			t.event, t.effect = s.tailEvent, s.tailEffect
			return s.followTail(cmd.Context(), t, f.From == "" && f.Since.IsZero(), "shows")
		})
	}
	return cmd
}

// followTail polls until the process receives a signal. verb is what another tail does with the events
// that a cursor cannot name.
func (s *shell) followTail(ctx context.Context, t *tail, fromNow bool, verb string) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if fromNow {
		if err := t.startNow(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
	fmt.Fprintln(s.err, "oncegate: following... (Ctrl-C ends it)")
	tick := time.NewTicker(tailEvery)
	defer tick.Stop()
	for lost := false; ; {
		err := t.poll(ctx)
		switch {
		case ctx.Err() != nil:
			return s.tailEnd(t, verb)
		case err != nil && exitCode(err) != exitTryLater:
			return err
		case err != nil && !lost:
			fmt.Fprintf(s.err, "oncegate: %s: trying again\n", clean(strings.TrimSuffix(explain(err), "; try again later")))
		case err == nil && lost:
			fmt.Fprintln(s.err, "oncegate: following again")
		}
		lost = err != nil
		select {
		case <-ctx.Done():
			return s.tailEnd(t, verb)
		case <-tick.C:
		}
	}
}

// tailEnd prints the cursor.
func (s *shell) tailEnd(t *tail, verb string) error {
	cursor, again := t.cursor()
	if s.output == "json" {
		if err := s.jsonLine(map[string]string{"cursor": cursor}); err != nil {
			return err
		}
	}
	shown := ""
	if again > 0 {
		shown = fmt.Sprintf(", which %s the last %s again", verb, plural(again, "event", "events"))
	}
	fmt.Fprintf(s.err, "oncegate: ended: continue with --from %s%s\n", cursor, shown)
	return nil
}

func (s *shell) tailEvent(_ context.Context, row *read.EventRow) error {
	if s.output == "json" {
		return s.jsonLine(map[string]any{"event": row})
	}
	admission := ""
	if row.Admission != "ok" {
		admission = row.Admission
	}
	return s.tailLine(row.ReceivedAt, row.Source+"/"+row.EventID, row.Type, admission)
}

func (s *shell) tailEffect(row *read.EffectRow) error {
	if s.output == "json" {
		return s.jsonLine(map[string]any{"effect": row})
	}
	how := strings.Join(slices.DeleteFunc([]string{row.State, row.Reason, row.Code}, func(part string) bool { return part == "" }), " ")
	return s.tailLine(time.Now(), row.Source+"/"+row.EventID, "-> "+row.Route, how)
}

func (s *shell) tailLine(at time.Time, parts ...string) error {
	when := clock(at)
	if s.width() > 0 {
		when = at.UTC().Format("15:04:05Z")
	}
	text := strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), "  ")
	if _, err := fmt.Fprintln(s.out, when+"  "+clean(text)); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	return nil
}

// jsonLine writes one object on a separate line.
func (s *shell) jsonLine(v any) error {
	encoder := json.NewEncoder(visible.NewWriter(s.out))
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return errors.Join(errors.New("writing json"), err)
	}
	return nil
}
