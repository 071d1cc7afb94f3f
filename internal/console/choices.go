package console

import (
	"log/slog"
	"slices"
	"strings"

	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/internal/control"
)

// names returns the names that filters can select. It reads them once for each page. A page is shown without choices if they
// cannot be read.
func (r *request) names() *control.Names {
	if r.known == nil {
		known, err := call(r, &control.ShowNames, control.NoRequest{})
		if err != nil || known == nil {
			r.console.cfg.Logger.LogAttrs(r.Context(), slog.LevelWarn, "the names for the filters of a page cannot be read", slog.Any("error", err))
			known = &control.Names{Incomplete: []string{"sources", "routes", "targets"}}
		}
		r.known = known
	}
	return r.known
}

// offer turns a text field into a choice if its values are a short closed set, and adds suggestions if the set is open.
func (r *request) offer(f field) field {
	if f.Kind != "" {
		return f
	}
	switch f.Name {
	case "source":
		return r.choiceOf(f, "sources", r.names().Sources)
	case "target":
		return r.choiceOf(f, "targets", r.names().Targets)
	case "route":
		var routes []string
		for _, route := range r.names().Routes {
			if source, name, _ := strings.Cut(route, "/"); r.query("source") == "" || r.query("source") == source {
				routes = append(routes, name)
			}
		}
		slices.Sort(routes)
		return r.choiceOf(f, "routes", slices.Compact(routes))
	case "reason":
		all := slices.Sorted(slices.Values(reasons.All()))
		return r.choiceOf(f, "reasons", slices.Compact(all))
	case "type":
		f.Suggestions = r.names().Types
	}
	return f
}

// choiceOf makes a field a choice of names, unless there are none or more than are known.
func (r *request) choiceOf(f field, member string, names []string) field {
	if len(names) == 0 || slices.Contains(r.names().Incomplete, member) {
		return f
	}
	if f.Value != "" && !slices.Contains(names, f.Value) { // what the address says stays, also if it does not exist
		names = append([]string{f.Value}, names...)
	}
	choice := r.choiceField(f.Name, f.Label, names...)
	choice.Hint = f.Hint
	if member != "reasons" { // show names unchanged
		for i := range choice.Options[1:] {
			choice.Options[i+1].Text = names[i]
		}
	}
	return choice
}

// chosen says what a filter selects, such as "source: stripe".
func (f *filter) chosen() []string {
	var out []string
	for i := range f.Fields {
		one := &f.Fields[i]
		switch value := one.shown(); {
		case one.Kind == "hidden" || value == "":
		case one.Kind == "checkbox":
			out = append(out, one.Label)
		default:
			out = append(out, one.Label+": "+value)
		}
	}
	return out
}

// shown is the value of a field for people.
func (f *field) shown() string {
	switch f.Kind {
	case "checkbox":
		if f.Checked {
			return "yes"
		}
		return ""
	case "select":
		for _, o := range f.Options {
			if o.Chosen {
				return o.Text
			}
		}
		return ""
	}
	return f.Value
}
