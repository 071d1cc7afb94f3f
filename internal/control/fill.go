package control

import (
	"encoding/json"
	"reflect"
	"strings"
)

// fillLists replaces nil lists in an answer with empty ones, because in JSON a list is a list and not null, unless the
// tag nullable of its field says that nil has a meaning. It changes the answer, which must belong to the caller.
func fillLists(v reflect.Value) {
	switch v.Kind() { //nolint:exhaustive // nothing else has a list
	case reflect.Pointer:
		if !v.IsNil() {
			fillLists(v.Elem())
		}
	case reflect.Slice:
		if !holdsLists(v.Type().Elem()) {
			return
		}
		for i := range v.Len() {
			fillLists(v.Index(i))
		}
	case reflect.Struct:
		if !holdsLists(v.Type()) {
			return
		}
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if !f.IsExported() || f.Tag.Get("json") == "-" || f.Tag.Get("nullable") == "true" {
				continue
			}
			member := v.Field(i)
			if member.Kind() == reflect.Slice && member.IsNil() && member.CanSet() && isList(f.Type) && !strings.Contains(f.Tag.Get("json"), ",omit") {
				member.Set(reflect.MakeSlice(f.Type, 0, 0))
				continue
			}
			fillLists(member)
		}
	}
}

// isList reports whether a type is a list. Bytes and raw JSON are not.
func isList(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8 && t != reflect.TypeFor[json.RawMessage]()
}

// holdsLists reports whether a type may contain lists. Ids, times and all types that marshal themselves to JSON or text
// do not.
func holdsLists(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() == reflect.Slice {
		return isList(t)
	}
	if t.Kind() != reflect.Struct {
		return false
	}
	for _, method := range []string{"MarshalJSON", "MarshalText"} {
		if _, ok := reflect.PointerTo(t).MethodByName(method); ok {
			return false
		}
	}
	return true
}
