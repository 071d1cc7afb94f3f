package console

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/control"
)

// pageRequest returns the page of a list that the address selects.
func (r *request) pageRequest() control.PageRequest {
	return control.PageRequest{After: r.query("after")}
}

// tableOf makes a table from a page of a list. Its links keep the rest of the address.
func tableOf[Row any](r *request, p read.Page[Row], empty string, heads []string, cells func(Row) []cell) *table {
	t := &table{Heads: heads, Empty: empty}
	for _, row := range p.Data {
		t.Rows = append(t.Rows, cells(row))
	}
	if len(p.Databases) == len(p.Data) && len(p.Data) > 0 {
		t.Heads = append(slices.Clone(heads), "Database")
		for i, name := range p.Databases {
			t.Rows[i] = append(t.Rows[i], cell{Text: name})
		}
	}
	t.Away = strings.Join(p.Away, ", ")
	if p.HasMore {
		t.Next = r.with("after", p.Next)
	}
	if r.query("after") != "" {
		t.First = r.with("after", "")
	}
	if p.SearchedTo != nil {
		t.SearchedTo = *p.SearchedTo
	}
	return t
}

// with returns the address of the page with one parameter changed.
func (r *request) with(name, value string) string {
	query := r.URL.Query()
	query.Del("done")
	if value == "" {
		query.Del(name)
	} else {
		query.Set(name, value)
	}
	return at(r.URL.Path, query)
}

// at returns a path with a query.
func at(path string, query url.Values) string {
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

// to returns a path with parameters in pairs. It leaves out empty ones.
func to(path string, pairs ...string) string {
	query := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			query.Set(pairs[i], pairs[i+1])
		}
	}
	return at(path, query)
}

// textField is a field of a filter with the value from the address.
func (r *request) textField(name, label string) field {
	return field{Name: name, Label: label, Value: r.query(name)}
}

// contentField is a field that searches by content. It has no name, and [request.filterOf] leaves it out, if the access
// may not see content: such a search would be refused.
func (r *request) contentField(name, label string) field {
	if !r.may(control.ReadPayload) {
		return field{}
	}
	return r.textField(name, label)
}

// sinceField is a field for the time from which a list starts.
func (r *request) sinceField(name, label string) field {
	return field{Name: name, Label: label, Value: r.query(name), Hint: "1h, 7d or a time in UTC"}
}

// choiceField offers words. The first choice selects everything.
func (r *request) choiceField(name, label string, words ...string) field {
	f := field{Name: name, Label: label, Kind: "select", Options: []option{{Text: "any"}}}
	chosen := r.query(name)
	for _, word := range words {
		f.Options = append(f.Options, option{Value: word, Text: strings.ReplaceAll(word, "_", " "), Chosen: word == chosen})
	}
	return f
}

// checkField is a checkbox.
func (r *request) checkField(name, label string) field {
	return field{Name: name, Label: label, Kind: "checkbox", Checked: r.query(name) == "true"}
}

// filterOf makes the form that narrows a list. It leaves out fields without a name, offers the values of a closed set, and folds the form
// if it has several fields.
func (r *request) filterOf(fields ...field) *filter {
	fields = slices.DeleteFunc(fields, func(f field) bool { return f.Name == "" })
	for i := range fields {
		fields[i] = r.offer(fields[i])
	}
	f := &filter{Action: r.URL.Path, Fields: fields}
	for _, one := range fields {
		f.Set = f.Set || one.Kind != "hidden" && r.query(one.Name) != ""
	}
	f.Chosen, f.Folded = f.chosen(), len(fields) > 1
	return f
}

// since parses a time in the address: how long ago (90m, 24h, 7d), a day, or an instant. Without a zone it is in
// UTC.
func (r *request) since(name string) (time.Time, error) {
	return parseSince(name, r.query(name), r.now)
}

func parseSince(name, given string, now time.Time) (time.Time, error) {
	if given == "" {
		return time.Time{}, nil
	}
	if days, ok := strings.CutSuffix(given, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n > 0 && n < 100_000 {
			return now.Add(-time.Duration(n) * 24 * time.Hour), nil
		}
	}
	if d, err := time.ParseDuration(given); err == nil && d > 0 {
		return now.Add(-d), nil
	}
	for _, form := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02"} {
		if at, err := time.Parse(form, strings.TrimSuffix(given, " UTC")); err == nil {
			return at, nil
		}
	}
	return time.Time{}, &control.Problem{Code: control.CodeInvalid, Detail: fmt.Sprintf("%s: enter how long ago, such as 1h or 7d, or a time such as 2026-11-23 14:00", name)}
}

// wordsOf returns a closed set as the words to choose from.
func wordsOf[Word ~string](all []Word) []string {
	out := make([]string, len(all))
	for i, word := range all {
		out[i] = string(word)
	}
	return out
}

// words returns a stored word as a phrase.
func words(s string) string { return strings.ReplaceAll(s, "_", " ") }
