package cli

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/oncegate/oncegate/internal/drill"
)

// violationsShown is how many violations of one invariant the report lists. The JSON has all.
const violationsShown = 20

// showDrill writes a report for people. database is what --database was.
func (s *shell) showDrill(r *drill.Report, database string) {
	n := &r.Sent
	faults := make([]string, 0, len(r.Faults))
	for _, f := range drill.Faults() {
		if count, made := r.Faults[f]; made {
			faults = append(faults, fmt.Sprintf("%s %d", f, count))
		}
	}
	page(s.out, []pair{
		{"sent", fmt.Sprintf("%s in %s, and %d forged", plural(n.Events, "event", "events"), plural(n.Deliveries, "delivery", "deliveries"), n.Forged)},
		{"answered", fmt.Sprintf("%d acknowledged, of which %d duplicates and %d conflicts; %d refused; %d unavailable; %d without an answer",
			n.Acknowledged, n.Duplicates, n.Conflicts, n.Refused, n.Unavailable, n.Unanswered)},
		{"faults", cmp.Or(strings.Join(faults, ", "), "none")},
		{"took", fmt.Sprintf("%.0f s%s", r.Seconds, map[bool]string{true: ", ended early"}[r.Early])},
	})
	fmt.Fprintln(s.out)
	effects := &table{header: []string{"ROUTE", "STATE", "REASON", "EFFECTS", "REQUESTS"}}
	for i := range r.Effects {
		e := &r.Effects[i]
		effects.add(e.Route, e.State, e.Reason, strconv.Itoa(e.Effects), strconv.Itoa(e.Requests))
	}
	effects.write(s.out, s.width())
	fmt.Fprintln(s.out)
	invariants := &table{header: []string{"INVARIANT", "CHECKED", "VIOLATIONS", "IT SAYS"}, ids: []string{"INVARIANT"}, spare: []string{"IT SAYS"}}
	for i := range r.Invariants {
		v := &r.Invariants[i]
		invariants.add(string(v.Name), strconv.Itoa(v.Checked), strconv.Itoa(len(v.Violations)), v.Says)
	}
	invariants.write(s.out, s.width())
	fmt.Fprintln(s.out)
	broken := 0
	for i := range r.Invariants {
		all := r.Invariants[i].Violations
		broken += len(all)
		for _, v := range all[:min(len(all), violationsShown)] {
			fmt.Fprintln(s.out, clean(v.String()))
		}
		if more := len(all) - violationsShown; more > 0 {
			fmt.Fprintf(s.out, "%s: and %d more\n", r.Invariants[i].Name, more)
		}
	}
	if r.Held {
		fmt.Fprintln(s.out, "every invariant held")
	} else {
		fmt.Fprintln(s.out, "BROKEN: "+plural(broken, "violation", "violations"))
	}
	if !strings.HasPrefix(database, "env:") {
		database = "URL"
	}
	fmt.Fprintln(s.out, "to repeat it: "+r.Repeat+" --database "+clean(database))
	if r.Schema != "" {
		fmt.Fprintf(s.out, "kept: schema %s, and the logs in %s\n", r.Schema, clean(r.Logs))
	}
}
