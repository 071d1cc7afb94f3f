package fold_test

import (
	"io"
	"log/slog"
	"testing"

	"github.com/oncegate/oncegate/internal/fold"
)

// BenchmarkLine measures the cost of one line for concurrent callers.
func BenchmarkLine(b *testing.B) {
	next := slog.NewJSONHandler(io.Discard, nil) //nolint:sloglint // what a line costs is measured
	folding := func(mode fold.Mode) slog.Handler {
		h, err := fold.New(fold.Config{Next: next, Mode: mode})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(h.Close)
		return h
	}
	for name, h := range map[string]slog.Handler{"written": next, "all": folding(fold.All), "sampled": folding(fold.Sampled), "errors": folding(fold.Errors)} {
		b.Run(name, func(b *testing.B) {
			log := slog.New(h)
			b.ReportAllocs()
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					log.LogAttrs(b.Context(), slog.LevelInfo, "event recorded", slog.String("source", "shop"),
						slog.String("event", "0198c2f6-7a52-7d1a-9f3e-2f1f5a0b6c7d"), slog.String("id", "evt_1"),
						slog.String("type", "invoice.paid"), slog.String("outcome", "recorded"))
				}
			})
		})
	}
}
