package invariant

import (
	"bytes"
	"crypto/sha256"
	"slices"

	"github.com/oncegate/oncegate/internal/drill/ledger"
)

func checkRecorded(e *evidence, f *finding) {
	for id, sent := range e.Sent {
		row := e.recorded[id]
		if sent.Acked > 0 && !sent.Forged {
			f.checked++
		}
		switch {
		case sent.Acked > 0 && !sent.Forged && row == nil:
			f.addf(id, "was acknowledged and is not recorded")
		case row == nil:
		case !bytes.Equal(row.SHA, sent.SHA[:]):
			f.addf(id, "is recorded with another hash")
		case !bytes.Equal(row.BodySHA, sent.SHA[:]):
			f.addf(id, "is recorded with another body, or none")
		}
	}
}

func checkRecordedOnce(e *evidence, f *finding) {
	rows := map[string]int{}
	for i := range e.Events {
		row := &e.Events[i]
		f.checked++
		if rows[row.EventID]++; rows[row.EventID] == 2 {
			f.addf(row.EventID, "has two rows")
		}
		sent, known := e.Sent[row.EventID]
		if !known {
			continue // it has no type
		}
		for j := range e.Routes {
			r := &e.Routes[j]
			want := 0
			if r.takes(sent.Type) {
				want = 1
			}
			if n := e.effects[row.EventID][r.Name]; n != want {
				f.addf(row.EventID, "has %d effects on route %s, want %d", n, r.Name, want)
			}
		}
	}
	for id, sent := range e.Sent {
		if sent.Recorded > 1 {
			f.addf(id, "was called new %d times", sent.Recorded)
		}
	}
}

func checkAuthentic(e *evidence, f *finding) {
	for id, sent := range e.Sent {
		if !sent.Forged {
			continue
		}
		f.checked++
		if sent.Acked > 0 {
			f.addf(id, "was acknowledged with a wrong signature")
		}
		if e.recorded[id] != nil {
			f.addf(id, "is recorded and was only sent with a wrong signature")
		}
	}
	for id := range e.recorded {
		if _, known := e.Sent[id]; !known {
			f.addf(id, "is recorded and was never sent")
		}
	}
	for i := range e.Routes {
		for id := range e.Routes[i].Requests {
			if e.recorded[id] == nil {
				f.addf(id, "was sent to %s and is not recorded", e.Routes[i].Name)
			}
		}
	}
	for at := range e.applied {
		if e.recorded[at[1]] == nil {
			f.addf(at[1], "was applied by %s and is not recorded", at[0])
		}
	}
}

func checkAnswered(e *evidence, f *finding) {
	for id, sent := range e.Sent {
		if sent.OddAnswers > 0 {
			f.addf(id, "got %d answers that do not fit", sent.OddAnswers)
		}
		if sent.Forged {
			continue
		}
		f.checked++
		if sent.Refused > 0 {
			f.addf(id, "was signed and refused %d times", sent.Refused)
		}
	}
	for id, row := range e.recorded {
		want, eventType := "unrouted", e.Sent[id].Type
		if slices.ContainsFunc(e.Routes, func(r Route) bool { return r.takes(eventType) }) {
			want = "ok"
		}
		if _, sent := e.Sent[id]; sent && row.Admission != want {
			f.addf(id, "was admitted as %s", row.Admission)
		}
	}
}

// keptConflicts is how many conflicting payloads of an event are kept: the newest ones.
const keptConflicts = 5

func checkConflicts(e *evidence, f *finding) {
	for id, rows := range e.Conflicts {
		if len(rows) > keptConflicts {
			f.addf(id, "has %d conflicting payloads, more than are kept", len(rows))
		}
		for _, row := range rows {
			if _, known := e.Sent[id].Conflicting[[sha256.Size]byte(row.SHA)]; !known {
				f.addf(id, "has a conflicting payload that was never sent")
			}
			if !bytes.Equal(row.SHA, row.BodySHA) {
				f.addf(id, "has a conflicting payload with other bytes")
			}
		}
	}
	for id, sent := range e.Sent {
		checkKept(f, id, &sent, e.Conflicts[id])
	}
}

// checkKept checks that each acknowledged payload is kept, unless enough others may have come after it.
func checkKept(f *finding, id string, sent *ledger.Event, rows []Conflict) {
	kept := map[[sha256.Size]byte]bool{}
	for _, row := range rows {
		kept[[sha256.Size]byte(row.SHA)] = true
	}
	for sum, c := range sent.Conflicting {
		if c.Acked == 0 {
			continue
		}
		f.checked++
		later := 0
		for other, o := range sent.Conflicting {
			if other != sum && o.LastAnsweredAt > c.LastAckSentAt {
				later++
			}
		}
		if !kept[sum] && later < keptConflicts {
			f.addf(id, "had a conflicting payload acknowledged that is not kept, and %d others after it", later)
		}
	}
}

func checkCounted(e *evidence, f *finding) {
	for _, r := range e.Refusals {
		f.checked += r.Refused
		if r.Counted != r.Refused {
			f.addf("", "%s refused %d deliveries and counted %d", r.Process, r.Refused, r.Counted)
		}
	}
}

func checkSurvives(e *evidence, f *finding) {
	f.checked = e.Faults
	for _, process := range e.Ended {
		f.addf("", "%s", process)
	}
}
