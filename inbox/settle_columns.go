package inbox

import (
	"time"

	"github.com/oncegate/oncegate/inbox/internal/place"
	"github.com/oncegate/oncegate/inbox/internal/row"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/internal/pgtext"
)

// settleRow is the database row of a settlement: its texts are cleaned for storage, and
// its result and excerpt are sealed if there is a keyring. Statements that need the
// stream and the next effect add those columns.
type settleRow struct {
	*Settlement
	code, excerpt    string
	result           []byte
	resultKey        *int32
	sealedExcerpt    []byte
	sealedExcerptKey *int32
}

// The columns of a group of settlements, on both sides of the node's name, which is $17.
var (
	settleColumns = row.ColumnsFrom(1,
		row.UUID("id", func(s *settleRow) ID { return s.Effect }),
		row.UUID("token", func(s *settleRow) ID { return s.Token }),
		row.Text("from_state", func(s *settleRow) EffectState { return s.From }),
		row.Int("version", func(s *settleRow) int32 { return int32(s.Version) }),
		row.Text("state", func(s *settleRow) EffectState { return s.State }),
		row.Bigint("after", func(s *settleRow) int64 { return s.After.Microseconds() }),
		row.Text("reason", func(s *settleRow) reasons.Reason { return s.Reason }),
		row.Text("code", func(s *settleRow) string { return s.code }),
		row.Text("excerpt", func(s *settleRow) string { return s.excerpt }),
		row.Bytes("result", func(s *settleRow) []byte { return s.result }),
		row.Text("outcome", func(s *settleRow) AttemptOutcome { return s.Outcome }),
		row.Text("trigger", func(s *settleRow) Trigger { return s.Trigger }),
		row.Time("started_at", func(s *settleRow) time.Time { return s.StartedAt }),
		row.Bool("unfinished", func(s *settleRow) bool { return s.Unfinished }),
		row.Bool("rearm", func(s *settleRow) bool { return s.Rearm }),
		row.Bigint("job_id", func(s *settleRow) int64 { return s.JobID }),
	)

	settleColumnsBehindNode = row.ColumnsFrom(settleColumns.Next()+1,
		row.UUID("duplicate_of", func(s *settleRow) ID { return s.DuplicateOf }),
		row.Bool("unknown", func(s *settleRow) bool { return s.Unknown }),
		row.Bool("recognised", func(s *settleRow) bool { return s.Recognised }),
		row.Int("result_key_id", func(s *settleRow) *int32 { return s.resultKey }),
		row.Bytes("excerpt_sealed", func(s *settleRow) []byte { return s.sealedExcerpt }),
		row.Int("excerpt_key_id", func(s *settleRow) *int32 { return s.sealedExcerptKey }),
		row.Text("failure", func(s *settleRow) reasons.Reason { return s.Failure }),
	)
)

// The arrays that a settling statement unnests, and their column names.
var (
	settleArrays = settleColumns.Arrays() + `, ` + settleColumnsBehindNode.Arrays()
	settleNames  = settleColumns.Names() + `, ` + settleColumnsBehindNode.Names()
)

// settleArguments returns the parameters of [settleEffects], the effects' ids first;
// more is how many parameters a statement adds after them.
func (e *Effects) settleArguments(group []Settlement, more int) []any {
	rows := make([]settleRow, len(group))
	for i := range group {
		s, r := &group[i], &rows[i]
		r.Settlement, r.code = s, pgtext.Clean(s.Code, 64)
		r.result, r.resultKey = e.keys.Seal(place.Result(s.Effect), s.Result)
		r.excerpt, r.sealedExcerpt, r.sealedExcerptKey = place.SealExcerpt(e.keys, s.Effect, pgtext.Clean(s.Excerpt, 2048))
	}
	args := make([]any, 0, settleColumnsBehindNode.Next()-1+more)
	args = append(settleColumns.Append(args, rows), e.node)
	return settleColumnsBehindNode.Append(args, rows)
}

func duplicatesOf(group []Settlement) []ID {
	out := make([]ID, len(group))
	for i := range group {
		out[i] = group[i].DuplicateOf
	}
	return out
}
