package console

import "github.com/oncegate/oncegate/internal/control"

// reconcileBlock shows how the sender of a source is asked which events there were, and the last run.
func reconcileBlock(s *control.SourceDetail) block {
	r := s.Reconcile
	b := block{
		ID: "reconcile", Title: "Reconcile", Text: "Which events the sender has, and whether all of them arrived.", Code: "oncegate reconcile " + shellWord(s.Name) + " --since 24h --dry-run",
		Facts: facts(is("Asks", code(r.Host)), is("Credential", code(r.Credential)), is("Schedule", text(or(every(r.Every), "none")))),
	}
	last := r.Last
	if last == nil {
		b.Facts = append(b.Facts, is("Last run", text("none")))
		return b
	}
	b.Facts = append(b.Facts, facts(
		is("Last run", instant(last.BeganAt)), is("From", instant(last.Since)), is("Until", instant(last.Until)), is("Listed", number(last.Listed)), is("Of other types", number(last.Other)),
		is("Missing", number(last.Missing)), is("Admitted", number(last.Admitted)), is("Asked for again", number(last.Redelivered)), is("Late", number(last.Late)), is("Unusable", cell{Text: groupDigits(int64(last.Unusable)), Detail: last.Why}),
	)...)
	switch {
	case last.Error != "":
		b.Notice = &notice{Kind: "bad", Text: "The last run failed.", Detail: last.Error}
	case !last.Complete:
		b.Notice = &notice{Kind: "warn", Text: "The last run did not come to its end.", Detail: "`oncegate reconcile " + shellWord(s.Name) + " --resume` continues it."}
	}
	return b
}

func every(span string) string {
	if span == "" {
		return ""
	}
	return "every " + span
}
