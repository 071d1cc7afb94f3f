package gate_test

import (
	"context"
	"testing"

	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
)

func newGate(tb testing.TB, b inboxtest.Bench) inboxtest.Gate {
	tb.Helper()
	gate, err := gate.New(gate.Config{Pool: b.Pool, Acquire: b.Acquire, Enqueuer: b.Queue, Clock: b.Clock})
	if err != nil {
		tb.Fatal(err)
	}
	if err := gate.Start(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = gate.Stop(context.WithoutCancel(tb.Context())) })
	return gate
}

func TestGate(t *testing.T) {
	t.Parallel()
	for _, name := range inboxtest.TestNames() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inboxtest.Exercise(t, name, storetest.Queue, newGate)
		})
	}
}
