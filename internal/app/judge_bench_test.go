package app_test

import (
	"log/slog"
	"testing"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/session"
)

// One judgement: a body of 150 bytes, verified, matched and compared.
func BenchmarkJudge(b *testing.B) {
	url, schema := inboxtest.Schema(b)
	cfg := judgeConfig(b, url, schema, judged+forwardRoute, "whsec_test")
	registered(b, cfg)
	pool := inboxtest.Open(b, url, schema, session.PoolAdmin, 2)
	judge, err := app.NewJudge(b.Context(), app.JudgeConfig{Settings: cfg, Pool: pool, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	r := recordedEvent(1)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := judge.Judge(b.Context(), r); err != nil {
			b.Fatal(err)
		}
	}
}
