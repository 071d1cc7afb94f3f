package jobs_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"context"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"github.com/oncegate/oncegate/jobs"
)

func TestGuardCleansWhatRiverWouldStore(t *testing.T) {
	t.Parallel()
	guard := jobs.Guard()
	work := func(do func() error) error {
		return guard.Work(t.Context(), &rivertype.JobRow{}, func(context.Context) error { return do() })
	}
	poison := "a\x00b\xff" + strings.Repeat("ä", 3000)
	for name, err := range map[string]error{
		"error":  work(func() error { return errors.New(poison) }),
		"panic":  work(func() error { panic(poison) }),
		"cancel": work(func() error { return river.JobCancel(errors.New(poison)) }),
	} {
		text := err.Error()
		if strings.ContainsRune(text, 0) || strings.ToValidUTF8(text, "") != text || len(text) > 2200 {
			t.Errorf("%s: %d bytes, %.40q", name, len(text), text)
		}
	}
	if err := work(func() error { return nil }); err != nil {
		t.Error(err)
	}
	var snooze *rivertype.JobSnoozeError
	if err := work(func() error { return fmt.Errorf("%s: %w", poison, river.JobSnooze(7)) }); !errors.As(err, &snooze) || snooze.Duration != 7 {
		t.Errorf("a snooze became %v", err)
	}
	if err := work(func() error { return fmt.Errorf("%s: %w", poison, context.Canceled) }); !errors.Is(err, context.Canceled) {
		t.Errorf("a stop became %v", err)
	}
	var cancel *rivertype.JobCancelError
	if err := work(func() error { return river.JobCancel(errors.New(poison)) }); !errors.As(err, &cancel) {
		t.Errorf("a cancel became %v", err)
	}
}

type poisonArgs struct {
	Poisonous bool `json:"poisonous"`
}

func (poisonArgs) Kind() string { return "poison" }

type poisonWorker struct {
	river.WorkerDefaults[poisonArgs]
}

func (poisonWorker) Work(_ context.Context, job *river.Job[poisonArgs]) error {
	if job.Args.Poisonous {
		return river.JobCancel(errors.New("remote said \x00"))
	}
	return nil
}

// River's completer, with the guard before it, completes the jobs beside a
// poisonous one.
func TestGuardKeepsTheCompleterGoing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	workers := river.NewWorkers()
	river.AddWorker(workers, poisonWorker{})
	client, err := river.NewClient(riverpgxv5.New(b.river), &river.Config{
		Queues: map[string]river.QueueConfig{"default": {MaxWorkers: 50}}, Workers: workers, Middleware: []rivertype.Middleware{jobs.Guard()},
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		if _, err := client.Insert(t.Context(), poisonArgs{Poisonous: i == 3}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := client.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Stop(context.Background()) })
	b.eventually("all ended", func() bool {
		return b.count(`SELECT count(*) FROM river_job WHERE state = 'completed'`) == 29 && b.count(`SELECT count(*) FROM river_job WHERE state = 'cancelled'`) == 1
	})
}
