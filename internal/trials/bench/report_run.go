package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// report is the result of a benchmark.
type report interface {
	writeTable(w io.Writer) error
	setRun(reportRun)
}

// reportRun is the part that all reports have.
type reportRun struct {
	Seconds  float64           `json:"seconds"`
	Settings map[string]string `json:"postgresql_settings"`
	Syncs    syncTimes         `json:"disk_syncs"`
}

// server describes the server in one line.
func (r *reportRun) server() string {
	return fmt.Sprintf("PostgreSQL: its durable defaults, with %v. Its disk syncs 8 KiB in %.2f ms (p99 %.2f, longest %.0f) while idle.",
		r.Settings, r.Syncs.Median, r.Syncs.P99, r.Syncs.Longest)
}

func (r *reportRun) setRun(as reportRun) { *r = as }

// output is the flag that says how a report is printed: "table", which is the default, or "json".
type output string

func (o *output) String() string { return string(*o) }

func (o *output) Set(s string) error {
	if s != "table" && s != "json" {
		return fmt.Errorf("%q is unknown; known are table, json", s)
	}
	*o = output(s)
	return nil
}

// onTestbed runs a measurement on a new testbed and prints the report.
func onTestbed(ctx context.Context, format output, measure func(*testbed) (report, error)) (err error) {
	began := time.Now()
	s, err := newTestbed(ctx)
	if s != nil {
		defer func() { err = errors.Join(err, s.close()) }()
	}
	if err != nil {
		return err
	}
	r, err := measure(s)
	if err != nil {
		return err
	}
	as := reportRun{Seconds: time.Since(began).Seconds(), Settings: settings, Syncs: s.diskSyncs}
	r.setRun(as)
	if format == "json" {
		return writeJSON(os.Stdout, r)
	}
	if err := r.writeTable(os.Stdout); err != nil {
		return err
	}
	if _, err := fmt.Printf("\n%.0f s in all\n", as.Seconds); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}
