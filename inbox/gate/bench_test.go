package gate_test

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/internal/storetest"
	"github.com/oncegate/oncegate/internal/session"
)

// BenchmarkGate admits deliveries of 2 KB from 64 goroutines, and those of "lone" one after the other; ./scripts/bench
// measures the whole path. Half the deliveries of "half" are duplicates.
func BenchmarkGate(b *testing.B) {
	for _, name := range []string{"unique", "half", "lone"} {
		b.Run(name, func(b *testing.B) {
			url, schema := inboxtest.Schema(b)
			pool := inboxtest.Open(b, url, schema, session.PoolAdmin, 4)
			source := inboxtest.Source(b, pool, "stripe")
			g := newGate(b, inboxtest.Bench{
				Pool: inboxtest.Open(b, url, schema, session.PoolGate, 8), Clock: inboxtest.Clock(b, pool), Queue: storetest.Queue(),
			})
			body := []byte(`{"pad":"` + string(bytes.Repeat([]byte("0123456789abcdef"), 127)) + `"}`)
			var n atomic.Int64
			admit := func() {
				i := n.Add(1)
				if name == "half" {
					i /= 2
				}
				a := &inbox.Admission{
					Source: source, Body: body, Headers: []byte(`{}`), ReceivedAt: time.Now(),
					Events: []inbox.NewEvent{{EventID: fmt.Sprintf("evt_%d", i), Type: "invoice.paid", Length: len(body)}},
				}
				if _, err := g.Accept(b.Context(), a); err != nil {
					b.Error(err)
				}
			}
			if name == "lone" {
				for b.Loop() {
					admit()
				}
			} else {
				b.SetParallelism(32)
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						admit()
					}
				})
			}
			b.ReportMetric(float64(n.Load())/float64(max(g.(*gate.Gate).Stats().Groups, 1)), "events/group")
		})
	}
}
