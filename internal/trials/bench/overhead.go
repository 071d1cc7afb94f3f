package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oncegate/oncegate/inbox/labels"
	"github.com/oncegate/oncegate/internal/drill/rig"
)

// comparison are the measurements with something and without it, pair by pair.
type comparison struct {
	Name string `json:"name"`

	// Acknowledged deliveries a second.
	With    []float64 `json:"with_per_second"`
	Without []float64 `json:"without_per_second"`

	// Processor time of the receiver and PostgreSQL for each event while the load lasts, in microseconds.
	WithCPU    []float64 `json:"with_cpu_us_each"`
	WithoutCPU []float64 `json:"without_cpu_us_each"`

	// Indexed is the processor time with labels when all of them are in their index: with what the indexer puts off.
	Indexed []float64 `json:"indexed_cpu_us_each,omitempty"`

	// Waiting are the labels that were not in their index at the end of the load, and Labels all of them, in all pairs.
	Waiting int64 `json:"labels_waiting,omitempty"`
	Labels  int64 `json:"labels,omitempty"`

	// Pages is the number of pages that the reader opened.
	Pages int64 `json:"pages,omitempty"`

	PerSecond interval `json:"per_second"`
	CPU       interval `json:"cpu"`

	IndexedCPU *interval `json:"indexed_cpu,omitempty"`

	with, without *rig.Node
	reader        *reader // opens pages in the measurements with something
}

// overheadReport is the result of the benchmark of labels, counts, the console and traces, which add work to each delivery.
type overheadReport struct {
	reportRun
	Pairs       int           `json:"pairs"`
	Each        float64       `json:"seconds_each"`
	Comparisons []*comparison `json:"comparisons"`
}

// labelConfiguration declares two labels: one that no two events share, and one that all have.
var labelConfiguration = strings.Replace(configuration, "    routes:", "    labels: { order: body.id, customer: body.data.object.customer }\n    routes:", 1)

// overheads are what the benchmark can compare. Of traces it compares all and one in a hundred.
var overheads = []string{"labels", "counts", "console", "traces"}

// measureOverhead compares receivers with and without labels, counts, a reader and traces. Which comes first changes from pair to pair.
func measureOverhead(ctx context.Context, args []string) error {
	pairs, seconds := 12, 5.0
	var quick bool
	var only string
	var format output
	flags := flag.NewFlagSet("bench overhead", flag.ContinueOnError)
	flags.BoolVar(&quick, "quick", false, "half a minute: one pair of two seconds each")
	flags.Var(&format, "output", "table or json")
	flags.IntVar(&pairs, "pairs", pairs, "how often each is measured with and without")
	flags.Float64Var(&seconds, "seconds", seconds, "of each measurement")
	flags.StringVar(&only, "only", "", strings.Join(overheads, ", "))
	if err := flags.Parse(args); err != nil {
		return err
	}
	if quick {
		pairs, seconds = 1, 2
	}
	if pairs < 1 || seconds < 1 || flags.NArg() > 0 {
		return errors.New("--pairs and --seconds are at least 1, and there are no arguments")
	}
	if only != "" && !slices.Contains(overheads, only) {
		return fmt.Errorf("--only %q is unknown; known are %s", only, strings.Join(overheads, ", "))
	}
	return onTestbed(ctx, format, func(s *testbed) (report, error) {
		r := &overheadReport{Pairs: pairs, Each: seconds}
		return r, r.measure(ctx, s, only)
	})
}

func (r *overheadReport) measure(ctx context.Context, s *testbed, only string) error {
	config, err := s.WriteFile("oncegate.yml", configuration)
	if err != nil {
		return err
	}
	labelled, err := s.WriteFile("labels.yml", labelConfiguration)
	if err != nil {
		return err
	}
	plain, err := s.receiver(ctx, config)
	if err != nil {
		return err
	}
	if only == "" || only == "labels" {
		c := &comparison{Name: "labels", without: plain}
		if c.with, err = s.receiver(ctx, labelled); err != nil {
			return err
		}
		r.Comparisons = append(r.Comparisons, c)
	}
	if only == "" || only == "counts" {
		c := &comparison{Name: "counts", with: plain}
		if c.without, err = s.receiver(ctx, config, "--uncounted"); err != nil {
			return err
		}
		r.Comparisons = append(r.Comparisons, c)
	}
	if only == "" || only == "console" {
		c := &comparison{Name: "console", with: plain, without: plain}
		if c.reader, err = newReader(ctx, s, plain, config); err != nil {
			return err
		}
		r.Comparisons = append(r.Comparisons, c)
	}
	if only == "" || only == "traces" {
		collector, stop, err := startCollector(ctx)
		if err != nil {
			return err
		}
		defer stop()
		for _, ratio := range []string{"1", "0.01"} {
			c := &comparison{Name: "traces:" + ratio, without: plain}
			if c.with, err = s.receiver(ctx, config, "--collector", collector, "--ratio", ratio); err != nil {
				return err
			}
			r.Comparisons = append(r.Comparisons, c)
		}
	}
	if _, err := s.db.Exec(ctx, `SET search_path = oncegate`); err != nil {
		return fmt.Errorf("preparing to move labels: %w", err)
	}
	run := uint32(0)
	for pair := range r.Pairs {
		for _, c := range r.Comparisons {
			for i := range 2 {
				run++
				if err := c.measure(ctx, s, run, (i+pair)%2 == 0, time.Duration(r.Each*float64(time.Second))); err != nil {
					return fmt.Errorf("%s: %w", c.Name, err)
				}
			}
			progress("pair %d of %d  %-8s with %8.0f/s, %4.0f us each  without %8.0f/s, %4.0f us each", pair+1, r.Pairs, c.Name,
				c.With[pair], c.WithCPU[pair], c.Without[pair], c.WithoutCPU[pair])
		}
	}
	for _, c := range r.Comparisons {
		c.PerSecond = newInterval("with "+c.Name+" / without, acknowledged a second", c.With, c.Without)
		c.CPU = newInterval("with "+c.Name+" / without, processor time of each", c.WithCPU, c.WithoutCPU)
		if len(c.Indexed) > 0 {
			indexed := newInterval("the same, when all labels are indexed", c.Indexed, c.WithoutCPU)
			c.IndexedCPU = &indexed
		}
	}
	return nil
}

// measure measures one side on empty tables.
func (c *comparison) measure(ctx context.Context, s *testbed, run uint32, with bool, measured time.Duration) error {
	if _, err := s.db.Exec(ctx, `TRUNCATE oncegate.inbox_event, oncegate.inbox_body, oncegate.effect, oncegate.river_job, oncegate.event_label, oncegate.event_label_batch`); err != nil {
		return fmt.Errorf("emptying the tables: %w", err)
	}
	if _, err := s.db.Exec(ctx, `CHECKPOINT`); err != nil {
		return fmt.Errorf("emptying the tables: %w", err)
	}
	node, perSecond, cpu := c.without, &c.Without, &c.WithoutCPU
	if with {
		node, perSecond, cpu = c.with, &c.With, &c.WithCPU
	}
	reading, stop := context.WithCancel(ctx)
	defer stop()
	read := make(chan error, 1)
	if with && c.reader != nil {
		go func() { read <- c.reader.read(reading) }()
	} else {
		read <- nil
	}
	before, err := s.cpuTime(node.Process)
	if err != nil {
		return err
	}
	w := workload{connections: 64, kind: onlyNew, bodySize: bodySize, warmUp: time.Second, measured: measured}
	got, err := generate(ctx, node.Public, run, w, func() {}, func() {})
	stop()
	if err := errors.Join(err, <-read); err != nil {
		return err
	}
	if got.acked() == 0 {
		return errors.New("nothing was acknowledged")
	}
	if with && c.reader != nil {
		c.Pages = c.reader.pages.Load()
	}
	after, err := s.cpuTime(node.Process)
	if err != nil {
		return err
	}
	var events int64
	if err := s.db.QueryRow(ctx, `SELECT count(*) FROM oncegate.inbox_event`).Scan(&events); err != nil {
		return fmt.Errorf("counting events: %w", err)
	}
	*perSecond, *cpu = append(*perSecond, got.perSecond()), append(*cpu, float64((after-before).Microseconds())/float64(events))
	if c.Name != "labels" || !with {
		return nil
	}
	if err := c.indexLabels(ctx, s); err != nil {
		return err
	}
	if after, err = s.cpuTime(node.Process); err != nil {
		return err
	}
	c.Indexed = append(c.Indexed, float64((after-before).Microseconds())/float64(events))
	return nil
}

// indexLabels moves the waiting labels into their index at once, so that the measurement includes the work that the
// indexer has postponed.
func (c *comparison) indexLabels(ctx context.Context, s *testbed) error {
	var waiting int64
	if err := s.db.QueryRow(ctx, `SELECT coalesce(sum(cardinality(event_id)), 0) FROM oncegate.event_label_batch`).Scan(&waiting); err != nil {
		return fmt.Errorf("counting the labels that wait: %w", err)
	}
	c.Waiting += waiting
	if err := labels.MoveAll(ctx, s.db); err != nil {
		return err
	}
	var indexed int64
	if err := s.db.QueryRow(ctx, `SELECT count(*) FROM oncegate.event_label`).Scan(&indexed); err != nil {
		return fmt.Errorf("counting labels: %w", err)
	}
	c.Labels += indexed
	return nil
}
