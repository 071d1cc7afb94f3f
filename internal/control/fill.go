package control

import (
	"encoding/json"
	"reflect"
	"strings"
)

// fillLists makes empty lists of those in an answer that are nil: in JSON a list is a list and not null, unless its field says by
// the tag nullable that nil has a meaning of its own. It changes the answer, which must belong to the caller.
func fillLists(v reflect.Value) {
	switch v.Kind() { //nolint:exhaustive // nothing else holds a list
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

// isList leaves out bytes and what is JSON already.
func isList(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8 && t != reflect.TypeFor[json.RawMessage]()
}

// holdsLists spares looking into what can hold none: ids, times, and all that writes itself as JSON or as a text.
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
