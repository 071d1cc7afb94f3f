package inbox

import (
	"slices"
	"time"

	"github.com/oncegate/oncegate/inbox/internal/place"
	"github.com/oncegate/oncegate/internal/pgtext"
)

// settleArguments are the parameters of [settleEffects], the effects' ids first.
func (e *Effects) settleArguments(group []Settlement) []any {
	cols, sealed := e.settleColumns(group)
	duplicates, unknown := outcomeColumns(group)
	return slices.Concat(cols, []any{e.node, duplicates, unknown, recognisedColumn(group)}, sealed, []any{failureColumn(group)})
}

// outcomeColumns are the arrays that follow the node's name.
func outcomeColumns(group []Settlement) (duplicates []ID, unknown []bool) {
	duplicates, unknown = make([]ID, len(group)), make([]bool, len(group))
	for i := range group {
		duplicates[i], unknown[i] = group[i].DuplicateOf, group[i].Unknown
	}
	return duplicates, unknown
}

func recognisedColumn(group []Settlement) []bool {
	out := make([]bool, len(group))
	for i := range group {
		out[i] = group[i].Recognised
	}
	return out
}

func failureColumn(group []Settlement) []string {
	out := make([]string, len(group))
	for i := range group {
		out[i] = string(group[i].Failure)
	}
	return out
}

// settleColumns turns the group into the arrays of [settleEffects]; those about
// what is sealed are the last ones of the statement.
func (e *Effects) settleColumns(group []Settlement) (columns, sealed []any) {
	n := len(group)
	var (
		ids, tokens                   = make([]ID, n), make([]ID, n)
		froms, states, reasons, codes = make([]string, n), make([]string, n), make([]string, n), make([]string, n)
		excerpts, outcomes, triggers  = make([]string, n), make([]string, n), make([]string, n)
		versions, afters, jobs        = make([]int32, n), make([]int64, n), make([]int64, n)
		results                       = make([][]byte, n)
		starts                        = make([]time.Time, n)
		unfinished, rearms            = make([]bool, n), make([]bool, n)
		resultKeys, excerptKeys       = make([]*int32, n), make([]*int32, n)
		sealedExcerpts                = make([][]byte, n)
	)
	for i := range group {
		s := &group[i]
		ids[i], tokens[i], versions[i] = s.Effect, s.Token, int32(s.Version)
		froms[i], states[i], afters[i] = string(s.From), string(s.State), s.After.Microseconds()
		reasons[i], codes[i], excerpts[i] = string(s.Reason), pgtext.Clean(s.Code, 64), pgtext.Clean(s.Excerpt, 2048)
		outcomes[i], triggers[i] = string(s.Outcome), string(s.Trigger)
		results[i], resultKeys[i] = e.keys.Seal(place.Result(s.Effect), s.Result)
		excerpts[i], sealedExcerpts[i], excerptKeys[i] = place.SealExcerpt(e.keys, s.Effect, excerpts[i])
		starts[i], unfinished[i], rearms[i], jobs[i] = s.StartedAt, s.Unfinished, s.Rearm, s.JobID
	}
	return []any{ids, tokens, froms, versions, states, afters, reasons, codes, excerpts, results, outcomes, triggers,
		starts, unfinished, rearms, jobs}, []any{resultKeys, sealedExcerpts, excerptKeys}
}
