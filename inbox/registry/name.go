package registry

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// ErrNames is returned by [Register] for a configuration whose names do not fit those
// that the database knows. Its text says what to write. Nothing was changed.
var ErrNames = errors.New("the configuration does not fit the names in the database")

// namedRow is a source, or a route of one source, as the database names it.
type namedRow struct {
	id      int32
	name    string
	keyName string // under which it was first registered
}

// pastName records that a row had a name and got another one. A recorded renaming is never
// applied again: a process that starts with an earlier configuration renames nothing back.
type pastName struct {
	id         int32
	name, into string
	at         time.Time
}

// wantedName is a source or a route of the configuration.
type wantedName struct {
	name     string
	previous []string

	// separate means that the configuration declares it to be different from all earlier
	// rows.
	separate bool
}

// nameDecision is the decision about a [wantedName].
type nameDecision struct {
	// row is the row that it has; 0 is a new one.
	row int32

	// renamed is the name that the row had and loses; empty if the row keeps its name.
	renamed string

	// now is the row's name, if it was renamed since this configuration was written.
	now string

	// keyName is the name with which a new row makes its keys.
	keyName string

	// learned are the previous names that the row did not have in the database.
	learned []string
}

// names decides which row each source has, or each route of one source.
type names struct {
	what   string // "source" or "route"
	rows   map[string]namedRow
	byID   map[int32]namedRow
	past   []pastName // in the order in which they were written
	wanted map[string]wantedName
	claims map[string]string // previous name -> who claims it
}

func newNames(what string, rows []namedRow, past []pastName, wanted []wantedName) *names {
	n := &names{
		what: what, rows: map[string]namedRow{}, byID: map[int32]namedRow{}, past: past,
		wanted: map[string]wantedName{}, claims: map[string]string{},
	}
	for _, r := range rows {
		n.rows[r.name], n.byID[r.id] = r, r
	}
	for _, w := range wanted {
		n.wanted[w.name] = w
		for _, p := range w.previous {
			n.claims[p] = w.name
		}
	}
	return n
}

// rowOfPastName returns the row that had the name last, if no row has it now.
func (n *names) rowOfPastName(name string) (row namedRow, at time.Time, ok bool) {
	if _, taken := n.rows[name]; taken {
		return namedRow{}, time.Time{}, false
	}
	for _, p := range slices.Backward(n.past) {
		if row, ok := n.byID[p.id]; ok && p.name == name {
			return row, p.at, true
		}
	}
	return namedRow{}, time.Time{}, false
}

// hadName reports whether the row is known to have had the name.
func (n *names) hadName(id int32, name string) bool {
	return slices.ContainsFunc(n.past, func(p pastName) bool { return p.id == id && p.name == name })
}

// wasRenamed reports whether the row was renamed from one name to the other before.
func (n *names) wasRenamed(id int32, from, into string) bool {
	return slices.ContainsFunc(n.past, func(p pastName) bool { return p.id == id && p.name == from && p.into == into })
}

// decide returns the decision for every name of the configuration, or all errors.
func (n *names) decide() (map[string]nameDecision, error) {
	out := make(map[string]nameDecision, len(n.wanted))
	var errs []error
	sorted := slices.Sorted(maps.Keys(n.wanted))
	leaving := map[string]bool{}
	for _, name := range sorted {
		from, learned, err := n.findRenamedRow(n.wanted[name])
		out[name] = nameDecision{learned: learned}
		if err != nil {
			errs = append(errs, err)
		} else if from != "" {
			out[name] = nameDecision{row: n.rows[from].id, renamed: from, learned: learned}
			leaving[from] = true
		}
	}
	for _, name := range sorted {
		if d := out[name]; d.renamed == "" {
			var err error
			if out[name], err = n.decideKnown(n.wanted[name], d.learned, leaving[name]); err != nil {
				errs = append(errs, err)
			}
		}
	}
	if len(errs) == 0 {
		errs = n.checkConflicts(out, leaving)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	n.keyNames(out)
	return out, nil
}

// findRenamedRow returns the name under which the database has a row that the configuration
// renames, and the previous names that the database does not know.
func (n *names) findRenamedRow(w wantedName) (from string, learned []string, err error) {
	current, exists := n.rows[w.name]
	var found []string
	for _, p := range w.previous {
		row, known := n.rows[p]
		switch {
		case p == w.name || exists && n.hadName(current.id, p):
		case known && n.wasRenamed(row.id, p, w.name):
			// It has its earlier name again: this configuration is the older one.
		case known:
			found = append(found, p)
		default:
			learned = append(learned, p)
		}
	}
	switch len(found) {
	case 0:
		return "", learned, nil
	case 1:
		return found[0], learned, nil
	}
	return "", nil, n.errorf("%s %s cannot have been both %s, which cannot be merged: leave one of them in its previous_names",
		n.what, w.name, strings.Join(found, " and "))
}

// decideKnown decides about a name that takes over no row. leaves reports that another name
// takes over the row that has it.
func (n *names) decideKnown(w wantedName, learned []string, leaves bool) (nameDecision, error) {
	current, exists := n.rows[w.name]
	switch {
	case !exists:
		return n.decideUnknown(w, learned)
	case leaves:
		return n.newRow(w), nil
	}
	for _, p := range learned {
		if row, at, ok := n.rowOfPastName(p); ok && row.id != current.id {
			return nameDecision{}, n.renamedError(w.name, p, row.name, at)
		}
	}
	return nameDecision{row: current.id, learned: learned}, nil
}

func (n *names) renamedError(name, previous, into string, at time.Time) error {
	return n.errorf("%s %s cannot have been %s, which became %s on %s: take %s out of previous_names of %s",
		n.what, name, previous, into, day(at), previous, name)
}

// decideUnknown decides about a name that no row has now.
func (n *names) decideUnknown(w wantedName, learned []string) (d nameDecision, err error) {
	if row, at, ok := n.rowOfPastName(w.name); ok {
		_, both := n.wanted[row.name]
		switch {
		case !both:
			// This configuration is older than the renaming.
			return nameDecision{row: row.id, now: row.name}, nil
		case !w.separate && n.claims[w.name] == "":
			return d, n.errorf("%s %s became %s on %s, and both are configured: write previous_names: [] at %s if it is a new %s",
				n.what, w.name, row.name, day(at), w.name, n.what)
		}
		return n.newRow(w), nil
	}
	for _, p := range w.previous {
		if row, known := n.rows[p]; known && n.wasRenamed(row.id, p, w.name) {
			return nameDecision{row: row.id, now: row.name}, nil
		}
	}
	for _, p := range learned {
		row, at, ok := n.rowOfPastName(p)
		if !ok {
			continue
		}
		if _, both := n.wanted[row.name]; both {
			return d, n.renamedError(w.name, p, row.name, at)
		}
		return nameDecision{row: row.id, renamed: row.name, learned: learned}, nil
	}
	return n.newRow(w), nil
}

// newRow is the decision for a new row. The previous names in the configuration are
// recorded, so that they are not examined again.
func (n *names) newRow(w wantedName) nameDecision {
	return nameDecision{learned: slices.DeleteFunc(slices.Clone(w.previous), func(p string) bool { return p == w.name })}
}

// checkConflicts refuses decisions that contradict each other.
func (n *names) checkConflicts(decisions map[string]nameDecision, leaving map[string]bool) (errs []error) {
	owner := map[int32]string{}
	for _, name := range slices.Sorted(maps.Keys(decisions)) {
		d := decisions[name]
		if d.row == 0 {
			continue
		}
		other, twice := owner[d.row]
		switch {
		case twice && d.now != "" && n.wanted[name].separate:
			decisions[name] = nameDecision{}
		case twice && decisions[other].now != "" && n.wanted[other].separate:
			decisions[other], owner[d.row] = nameDecision{}, name
		case twice:
			errs = append(errs, n.errorf("%ss %s and %s would both be %s: write previous_names: [] at the one that is new",
				n.what, other, name, n.byID[d.row].name))
		default:
			owner[d.row] = name
		}
		if _, taken := n.rows[name]; taken && d.renamed != "" && !leaving[name] {
			errs = append(errs, n.errorf("%s %s cannot take over what %s has, since there is a %s %s already: choose a name that was never used, or configure both and take %s out of previous_names",
				n.what, name, d.renamed, n.what, name, d.renamed))
		}
	}
	return errs
}

// keyNames sets the names with which new rows make their keys: their own, unless a row that
// was renamed makes its keys with that name.
func (n *names) keyNames(decisions map[string]nameDecision) {
	taken := map[string]bool{}
	for _, r := range n.byID {
		taken[r.keyName] = true
	}
	for _, name := range slices.Sorted(maps.Keys(decisions)) {
		d := decisions[name]
		if d.row != 0 {
			continue
		}
		d.keyName = name
		for i := 2; taken[d.keyName]; i++ {
			d.keyName = fmt.Sprintf("%s#%d", name, i) // no configured name has a #
		}
		taken[d.keyName] = true
		decisions[name] = d
	}
}

// reusedNames returns the names that one row loses and another row, or a new one, gets by
// the same decisions. A process that still runs means the first of these rows.
func reusedNames(decisions map[string]nameDecision) (out []string) {
	for _, name := range slices.Sorted(maps.Keys(decisions)) {
		if d := decisions[name]; d.renamed != "" {
			if _, ok := decisions[d.renamed]; ok {
				out = append(out, d.renamed)
			}
		}
	}
	return out
}

func (n *names) errorf(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrNames}, args...)...)
}

func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }
