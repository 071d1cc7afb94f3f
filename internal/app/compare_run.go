package app

import (
	"context"

	"github.com/oncegate/oncegate/inbox/replay"
)

// CompareRun compares one page of a run with what the configuration would send today. It sends nothing, unless results asks the
// targets about each step by their probes and dry runs; progress is then told how many steps were asked about.
func CompareRun(ctx context.Context, cfg JudgeConfig, ask replay.AuditRequest, results bool, progress func(steps int)) (*replay.Audit, error) {
	judge, err := NewJudge(ctx, cfg)
	if err != nil {
		return nil, err
	}
	comparison := judge.Comparison()
	var asked *Results
	if results {
		if asked, err = judge.Results(); err != nil {
			return nil, err
		}
		defer asked.Close()
		comparison, ask.Results = asked.Comparison(), true
	}
	auditor, err := replay.NewAuditor(replay.AuditConfig{Pool: cfg.Pool, Keyring: cfg.Keyring, Archive: cfg.Archive, Comparer: comparison, Now: cfg.Now})
	if err != nil {
		return nil, err
	}
	out, err := auditor.Audit(ctx, ask)
	if err != nil || !results {
		return out, err
	}
	return out, asked.Compare(ctx, out, progress)
}
