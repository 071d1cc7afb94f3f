package control

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"reflect"
	"time"

	"github.com/oncegate/oncegate/inbox"
)

// answersList reports whether the answer of an operation is a list.
func answersList(response reflect.Type) bool {
	if response.Kind() != reflect.Struct {
		return false
	}
	data, ok := response.FieldByName("Data")
	return ok && data.Type.Kind() == reflect.Slice
}

// place is the position of a merged list in one database.
type place struct {
	// After is the cursor of the database's own list. Empty is its beginning.
	After string `json:"a,omitempty"`

	// Done says that the list has ended.
	Done bool `json:"d,omitempty"`
}

// part is the page of one database.
type part struct {
	in    Database
	place place
	page  reflect.Value // the answer; invalid if there is none
	used  int           // how many of its rows the merged page has
}

func (p *part) rows() reflect.Value { return p.page.FieldByName("Data") }

// next returns the row that comes next, or an invalid value.
func (p *part) next() reflect.Value {
	if !p.page.IsValid() || p.used >= p.rows().Len() {
		return reflect.Value{}
	}
	return p.rows().Index(p.used)
}

// merge returns one page of the lists of several databases. It orders rows by their ids, because the lists do and an id begins with the
// time. It orders rows without ids by database.
func (f *front) merge(ctx context.Context, o Definition, access Access, request any, in []Database) (any, error) {
	d := o.Describe()
	asked := reflect.New(d.Request).Elem()
	asked.Set(reflect.ValueOf(request))
	paged := asked.FieldByName("PageRequest")
	places, limit := map[string]place{}, 0
	if paged.IsValid() {
		page, _ := reflect.TypeAssert[PageRequest](paged)
		var err error
		if limit, err = page.limit(); err != nil {
			return nil, err
		}
		if places, err = readPlaces(page.After); err != nil {
			return nil, err
		}
	}
	read := func(one Database, at place, limit int) (reflect.Value, error) {
		if paged.IsValid() {
			paged.Set(reflect.ValueOf(PageRequest{Limit: limit, After: at.After}))
		}
		answer, err := f.carry(ctx, one, o, access, asked.Interface())
		if err != nil {
			return reflect.Value{}, err
		}
		page := reflect.New(d.Response).Elem() // which can be changed
		page.Set(reflect.ValueOf(answer))
		return page, nil
	}
	parts, away, err := readParts(in, places, func(one Database, at place) (reflect.Value, error) { return read(one, at, limit) })
	if err != nil {
		return nil, err
	}
	order := orderOf(parts)
	for taken := 0; limit == 0 || taken < limit; taken++ {
		p := first(parts, order)
		if p == nil {
			break
		}
		p.used++
	}
	var kept []part
	for _, p := range parts {
		switch p.used {
		case p.rows().Len():
		case 0: // the page is full, and its rows come later
			continue
		default: // the cursor of a page leads behind its last row, so a page of the rows that are used has the right one
			if p.page, err = read(p.in, p.place, p.used); err != nil {
				return nil, err
			}
		}
		p.used = 0
		kept = append(kept, p)
	}
	return joined(d.Response, kept, order, places, away, len(kept) < len(parts)), nil
}

// readParts reads a page from each database whose list has not ended. It returns the names of the databases that do not answer in away.
func readParts(in []Database, places map[string]place, read func(Database, place) (reflect.Value, error)) (parts []part, away []string, err error) {
	var missing, unavailable error
	for _, one := range in {
		at := places[one.Name]
		if at.Done {
			continue
		}
		page, err := read(one, at)
		switch code := ProblemOf(err).Code; {
		case err == nil:
			parts = append(parts, part{in: one, place: at, page: page})
		case code == CodeNotFound || code == CodeUnknownName: // another database has it
			missing = err
			places[one.Name] = place{Done: true}
		case code == CodeUnavailable || code == CodeTimeout:
			unavailable = err
			away = append(away, one.Name)
		default:
			return nil, nil, err
		}
	}
	switch {
	case len(parts) > 0:
		return parts, away, nil
	case unavailable != nil:
		return nil, nil, unavailable
	}
	return nil, nil, missing
}

// orderOf returns the order of the ids in the pages: -1 for the newest first, 1 for the oldest first, and 0 if the rows have no ids or
// are in another order.
func orderOf(parts []part) int {
	order := -1
	known := false
	for i := range parts {
		rows := parts[i].rows()
		for j := range rows.Len() {
			if _, ok := idOf(rows.Index(j)); !ok {
				return 0
			}
			if j == 0 {
				continue
			}
			got := compareIDs(rows.Index(j), rows.Index(j-1))
			if known && got != order {
				return 0
			}
			order, known = got, true
		}
	}
	return order
}

// first returns the part with the next row, or nil.
func first(parts []part, order int) *part {
	var chosen *part
	for i := range parts {
		p := &parts[i]
		if !p.next().IsValid() {
			continue
		}
		if chosen == nil || order != 0 && compareIDs(p.next(), chosen.next()) == -order {
			chosen = p
		}
		if order == 0 {
			break
		}
	}
	return chosen
}

// idOf returns the id of a row.
func idOf(row reflect.Value) (inbox.ID, bool) {
	if row.Kind() == reflect.Pointer {
		row = row.Elem()
	}
	if row.Kind() != reflect.Struct {
		return inbox.ID{}, false
	}
	field := row.FieldByName("ID")
	if !field.IsValid() {
		return inbox.ID{}, false
	}
	return reflect.TypeAssert[inbox.ID](field)
}

func compareIDs(a, b reflect.Value) int {
	x, _ := idOf(a)
	y, _ := idOf(b)
	return bytes.Compare(x[:], y[:])
}

// joined makes the merged page of all rows of the parts. more says that other parts have rows.
func joined(response reflect.Type, parts []part, order int, places map[string]place, away []string, more bool) any {
	out := reflect.New(response).Elem()
	rows := reflect.MakeSlice(out.FieldByName("Data").Type(), 0, 0)
	var names []string
	for p := first(parts, order); p != nil; p = first(parts, order) {
		rows = reflect.Append(rows, p.next())
		names = append(names, p.in.Name)
		p.used++
	}
	var searched *time.Time
	for i := range parts {
		p := &parts[i]
		next := place{Done: true}
		if has := p.page.FieldByName("HasMore"); has.IsValid() && has.Bool() {
			next, more = place{After: p.page.FieldByName("Next").String()}, true
		}
		places[p.in.Name] = next
		if field := p.page.FieldByName("SearchedTo"); field.IsValid() {
			if at, _ := reflect.TypeAssert[*time.Time](field); at != nil && (searched == nil || at.After(*searched)) {
				searched = at
			}
		}
	}
	out.FieldByName("Data").Set(rows)
	set(out, "Databases", names)
	set(out, "Away", away)
	set(out, "SearchedTo", searched)
	if more || len(away) > 0 {
		set(out, "HasMore", true)
		set(out, "Next", writePlaces(places))
	}
	return out.Interface()
}

// set sets a member of a page, if the list has it.
func set(page reflect.Value, name string, value any) {
	if field := page.FieldByName(name); field.IsValid() {
		field.Set(reflect.ValueOf(value))
	}
}

const placesPrefix = "all."

// writePlaces makes the cursor of a merged list.
func writePlaces(places map[string]place) string {
	text, err := json.Marshal(places)
	if err != nil { // names and cursors always marshal
		return ""
	}
	return placesPrefix + base64.RawURLEncoding.EncodeToString(text)
}

// readPlaces reads the cursor of a merged list.
func readPlaces(cursor string) (map[string]place, error) {
	places := map[string]place{}
	if cursor == "" {
		return places, nil
	}
	if len(cursor) > len(placesPrefix) && cursor[:len(placesPrefix)] == placesPrefix {
		if text, err := base64.RawURLEncoding.DecodeString(cursor[len(placesPrefix):]); err == nil && json.Unmarshal(text, &places) == nil {
			return places, nil
		}
	}
	return nil, invalid("after: not a cursor of this list; use the next of the page before")
}
