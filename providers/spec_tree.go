package providers

import (
	"reflect"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/oncegate/oncegate/internal/yamltree"
)

// Tree returns the spec as a file that extends no other would contain it. It includes defaults and
// omits values that are not set.
func (s *Spec) Tree() yaml.MapSlice {
	alone := *s
	alone.Extends = "" // the tree includes the base's values
	tree, _ := specValue(reflect.ValueOf(alone)).(yaml.MapSlice)
	return tree
}

// specValue returns a value of the tree, or nil for a value that is not set.
func specValue(v reflect.Value) any {
	switch value := v.Interface().(type) {
	case Duration:
		return durationText(value)
	case Size:
		if value == 0 {
			return nil
		}
		return yamltree.FormatSize(int64(value))
	case AnswerSpec:
		if value.Empty { // the values that it replaced may still be set
			value.Body, value.ContentType = "", ""
			v = reflect.ValueOf(value)
		}
	case Part:
		if value.Word != "" {
			return value.Word
		}
	}
	switch v.Kind() {
	case reflect.Struct:
		var out yaml.MapSlice
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
			if name == "-" || name == "" {
				continue
			}
			if value := specValue(v.Field(i)); value != nil {
				out = append(out, yaml.MapItem{Key: name, Value: value})
			}
		}
		if out == nil {
			return nil
		}
		return out
	case reflect.Slice:
		var out []any
		for i := range v.Len() {
			out = append(out, specValue(v.Index(i)))
		}
		if out == nil {
			return nil
		}
		return out
	case reflect.Map:
		if v.Len() == 0 {
			return nil
		}
		return v.Interface()
	default:
		if v.IsZero() {
			return nil
		}
		if v.Kind() == reflect.String && strings.TrimSpace(v.String()) == "" {
			return space(v.String())
		}
		return v.Interface()
	}
}

// space is a text of white space only. The library would write it as a block that it cannot parse.
type space string

// MarshalYAML writes the text in quotation marks.
func (s space) MarshalYAML() ([]byte, error) { return []byte(strconv.Quote(string(s))), nil }
