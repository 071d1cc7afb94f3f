package control

import (
	"encoding/json"
	"errors"
	"math/bits"
	"reflect"
	"strings"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/read"
)

// mask removes from an answer what the access may not see, by [Metadata]. It changes the answer, which must belong to the
// caller. A structure with a member PayloadHidden learns that something of it was left out.
//
// A field named EventID is masked without a tag, and so is raw JSON that may quote event ids.
func (a Access) mask(answer reflect.Value) {
	if !a.Scopes.Allow(ReadPayload) {
		masker{a}.value(answer)
	}
}

// masker masks one answer.
type masker struct{ access Access }

// value masks a value without a tag and reports whether it left something out.
func (m masker) value(v reflect.Value) (hidden bool) {
	switch v.Kind() { //nolint:exhaustive // nothing else contains structures
	case reflect.Pointer, reflect.Interface:
		return !v.IsNil() && m.value(v.Elem())
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			if v.CanSet() {
				v.SetBytes([]byte(inbox.WithoutHashes(string(v.Bytes()))))
			}
			return false
		}
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return false
		}
		for i := range v.Len() {
			hidden = m.value(v.Index(i)) || hidden
		}
	case reflect.Struct:
		return m.structure(v)
	}
	return hidden
}

func (m masker) structure(v reflect.Value) (hidden bool) {
	id := v.FieldByName("EventID") // before it is masked
	ofContent := id.IsValid() && id.Kind() == reflect.String && inbox.IDOfContent(id.String())
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if !f.IsExported() {
			continue
		}
		kind := MetadataKind(f.Tag.Get("shows"))
		switch {
		case kind != "":
			hidden = m.field(v.Field(i), kind, ofContent) || hidden
		case f.Name == "EventID" && f.Type.Kind() == reflect.String:
			v.Field(i).SetString(inbox.WithoutHashes(v.Field(i).String()))
		default:
			hidden = m.value(v.Field(i)) || hidden
		}
	}
	mark, ok := v.Type().FieldByName("PayloadHidden")
	if !hidden || !ok || len(mark.Index) > 1 {
		return hidden
	}
	v.FieldByIndex(mark.Index).SetBool(true)
	return false
}

// field masks a field of a kind. ofContent says that the structure belongs to an event whose id is made of content.
func (m masker) field(v reflect.Value, kind MetadataKind, ofContent bool) (hidden bool) {
	row := rowOf(kind)
	if m.access.Scopes.Allow(row.See) || v.IsZero() {
		return false
	}
	switch kind { //nolint:exhaustive // the others are left out as a whole
	case MetadataLength:
		v.SetInt(atMost(v.Int()))
		return true
	case MetadataURL:
		path, _, query := strings.Cut(v.String(), "?")
		if query {
			v.SetString(path + "?…")
		}
		return query
	case MetadataEventID:
		return maskIDs(v)
	case MetadataKey:
		if !ofContent && !row.ofContent(v.String()) {
			return false
		}
	case MetadataContent:
		if headers, ok := reflect.TypeAssert[map[string][]string](v); ok { // names of headers are the protocol's
			for _, values := range headers {
				clear(values)
			}
			return true
		}
	}
	v.SetZero()
	return true
}

// maskIDs masks a list of event ids, or one.
func maskIDs(v reflect.Value) bool {
	if v.Kind() == reflect.String {
		v.SetString(inbox.WithoutHashes(v.String()))
		return false
	}
	for i := range v.Len() {
		maskIDs(v.Index(i))
	}
	return false
}

// atMost rounds a length up to a power of two, because an exact length would distinguish the possible values of a masked member.
func atMost(length int64) int64 {
	if length <= 1 {
		return length
	}
	return 1 << bits.Len64(uint64(length-1))
}

// maskError masks the event ids that an error lists.
func (a Access) maskError(err error) error {
	if ambiguous, ok := errors.AsType[*read.AmbiguousError](err); ok && !a.Scopes.Allow(ReadPayload) {
		for i := range ambiguous.Candidates {
			ambiguous.Candidates[i].Name = inbox.WithoutHashes(ambiguous.Candidates[i].Name)
		}
	}
	return err
}

// checkSearches refuses a request that searches by a value which the access may not see.
func (a Access) checkSearches(v reflect.Value) error {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return a.checkSearches(v.Elem())
	case reflect.Struct:
	default:
		return nil
	}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if !f.IsExported() {
			continue
		}
		field := v.Field(i)
		kind := f.Tag.Get("searches")
		if kind == "" {
			if err := a.checkSearches(field); err != nil {
				return err
			}
			continue
		}
		for one := range strings.SplitSeq(kind, ",") {
			name, inPath := strings.CutSuffix(one, "/path") // only a path contains such a value
			row := rowOf(MetadataKind(name))
			if value := field.String(); value == "" || inPath && !strings.Contains(value, "/") || row.ofContent != nil && !row.ofContent(value) {
				continue
			}
			if err := a.check(row.Search); err != nil {
				return err
			}
		}
	}
	return nil
}

// seesKeyOf reports whether the access may see and search the idempotency keys of effects of the event with the id, because
// these are made of the id.
func (a Access) seesKeyOf(eventID string) bool {
	return a.Scopes.Allow(rowOf(MetadataKey).See) || !inbox.IDOfContent(eventID)
}
