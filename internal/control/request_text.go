package control

import (
	"reflect"
	"strings"
	"unicode/utf8"
)

// checkTexts refuses a request with a text that PostgreSQL cannot store: one with a NUL character or with bytes that are not
// UTF-8. name is the JSON name of the value, which the error contains. checkTexts ignores values of type []byte.
func checkTexts(value reflect.Value, name string) error {
	switch value.Kind() {
	case reflect.String:
		switch text := value.String(); {
		case strings.ContainsRune(text, 0):
			return invalid("%s: it contains a NUL character; leave it out", or(name, "a text"))
		case !utf8.ValidString(text):
			return invalid("%s: it is not valid UTF-8", or(name, "a text"))
		}
	case reflect.Pointer, reflect.Interface:
		if !value.IsNil() {
			return checkTexts(value.Elem(), name)
		}
	case reflect.Slice, reflect.Array:
		if value.Type().Elem().Kind() == reflect.Uint8 {
			return nil
		}
		for i := range value.Len() {
			if err := checkTexts(value.Index(i), name); err != nil {
				return err
			}
		}
	case reflect.Map:
		for each := value.MapRange(); each.Next(); {
			if err := checkTexts(each.Key(), name); err != nil {
				return err
			}
			if err := checkTexts(each.Value(), name); err != nil {
				return err
			}
		}
	case reflect.Struct:
		for i := range value.NumField() {
			field := value.Type().Field(i)
			if !field.IsExported() && !field.Anonymous {
				continue
			}
			inner, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if inner == "-" {
				inner = ""
			}
			if err := checkTexts(value.Field(i), or(inner, name)); err != nil {
				return err
			}
		}
	default: // numbers and truths
	}
	return nil
}
