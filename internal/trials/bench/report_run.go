package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// report is what a benchmark found out.
type report interface {
	writeTable(w io.Writer) error
	setRun(reportRun)
}

// reportRun is what every report tells of its run.
type reportRun struct {
	Seconds  float64           `json:"seconds"`
	Settings map[string]string `json:"postgresql_settings"`
	Syncs    syncTimes         `json:"disk_syncs"`
}

// server is a line about the server that was used.
func (r *reportRun) server() string {
	return fmt.Sprintf("PostgreSQL: its durable defaults, with %v. Its disk syncs 8 KiB in %.2f ms (p99 %.2f, longest %.0f) while idle.",
		r.Settings, r.Syncs.Median, r.Syncs.P99, r.Syncs.Longest)
}

func (r *reportRun) setRun(as reportRun) { *r = as }

// output is how a report is printed, as a flag: "table", which is the default, or "json".
type output string

func (o *output) String() string { return string(*o) }

func (o *output) Set(s string) error {
	if s != "table" && s != "json" {
		return fmt.Errorf("%q is unknown; known are table, json", s)
	}
	*o = output(s)
	return nil
}

// onTestbed measures on a testbed of its own, which is gone when it returns, and prints
// the report.
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
