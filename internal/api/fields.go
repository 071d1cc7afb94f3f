package api

import (
	"encoding"
	"fmt"
	"net/url"
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

// field is one field of a request, by its JSON name.
type field struct {
	name  string
	index []int
}

// fields returns the fields of a request, including the fields of embedded structs.
func fields(request reflect.Type) []field {
	var out []field
	for _, f := range reflect.VisibleFields(request) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || !f.IsExported() || name == "-" || name == "" {
			continue
		}
		out = append(out, field{name: name, index: f.Index})
	}
	return out
}

var placeholder = regexp.MustCompile(`\{([a-z_]+)\}`)

// pathNames returns the names in braces of a path.
func pathNames(path string) map[string]bool {
	names := map[string]bool{}
	for _, match := range placeholder.FindAllStringSubmatch(path, -1) {
		names[match[1]] = true
	}
	return names
}

// hasBody reports whether requests with the method have a body.
func hasBody(method string) bool { return method != "GET" && method != "DELETE" }

// setText parses the texts of a path or a query into a field.
func setText(target reflect.Value, texts []string) error {
	if target.Kind() == reflect.Slice && target.Type().Elem().Kind() != reflect.Uint8 {
		list := reflect.MakeSlice(target.Type(), len(texts), len(texts))
		for i, text := range texts {
			if err := setText(list.Index(i), []string{text}); err != nil {
				return err
			}
		}
		target.Set(list)
		return nil
	}
	if len(texts) != 1 {
		return fmt.Errorf("it is given %d times", len(texts))
	}
	text := texts[0]
	if target.Kind() == reflect.Pointer {
		value := reflect.New(target.Type().Elem())
		if err := setText(value.Elem(), texts); err != nil {
			return err
		}
		target.Set(value)
		return nil
	}
	if into, ok := reflect.TypeAssert[encoding.TextUnmarshaler](target.Addr()); ok {
		if err := into.UnmarshalText([]byte(text)); err != nil {
			return fmt.Errorf("%q is not valid", text)
		}
		return nil
	}
	switch target.Kind() {
	case reflect.String:
		target.SetString(text)
	case reflect.Bool:
		yes, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("%q is neither true nor false", text)
		}
		target.SetBool(yes)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		n, err := strconv.ParseInt(text, 10, target.Type().Bits())
		if err != nil {
			return fmt.Errorf("%q is not a whole number", text)
		}
		target.SetInt(n)
	default:
		return fmt.Errorf("a %v cannot be given in an address", target.Type())
	}
	return nil
}

// texts returns the texts of a field for a path or a query. A zero field has none.
func texts(value reflect.Value) ([]string, error) {
	if value.IsZero() {
		return nil, nil
	}
	if value.Kind() == reflect.Pointer {
		value = value.Elem()
	}
	if value.Kind() == reflect.Slice && value.Type().Elem().Kind() != reflect.Uint8 {
		var out []string
		for i := range value.Len() {
			one, err := text(value.Index(i))
			if err != nil {
				return nil, err
			}
			out = append(out, one)
		}
		return out, nil
	}
	one, err := text(value)
	return []string{one}, err
}

func text(value reflect.Value) (string, error) {
	if from, ok := reflect.TypeAssert[encoding.TextMarshaler](value); ok {
		b, err := from.MarshalText()
		return string(b), err
	}
	switch value.Kind() {
	case reflect.String:
		return value.String(), nil
	case reflect.Bool:
		return strconv.FormatBool(value.Bool()), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.FormatInt(value.Int(), 10), nil
	default:
		return "", fmt.Errorf("a %v cannot be given in an address", value.Type())
	}
}

// decodeAddress sets the fields of a request that are in the path and the query.
func decodeAddress(request reflect.Value, path string, pathValue func(name string) string, query url.Values, body bool) error {
	inPath := pathNames(path)
	known := map[string]bool{}
	for _, f := range fields(request.Type()) {
		target := request.FieldByIndex(f.index)
		switch {
		case inPath[f.name]:
			if err := setText(target, []string{pathValue(f.name)}); err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
		case !body:
			known[f.name] = true
			if given := query[f.name]; len(given) > 0 {
				if err := setText(target, given); err != nil {
					return fmt.Errorf("%s: %w", f.name, err)
				}
			}
		}
	}
	for name := range query {
		if !known[name] {
			return fmt.Errorf("the parameter %q is unknown", name)
		}
	}
	return nil
}

// encodeAddress returns the path and the query of a request.
func encodeAddress(request reflect.Value, path string, body bool) (string, url.Values, error) {
	inPath, query := pathNames(path), url.Values{}
	for _, f := range fields(request.Type()) {
		if !inPath[f.name] && body {
			continue
		}
		given, err := texts(request.FieldByIndex(f.index))
		if err != nil {
			return "", nil, fmt.Errorf("%s: %w", f.name, err)
		}
		if !inPath[f.name] {
			if len(given) > 0 {
				query[f.name] = given
			}
			continue
		}
		if len(given) != 1 || given[0] == "" {
			return "", nil, fmt.Errorf("%s: it must not be empty", f.name)
		}
		path = strings.ReplaceAll(path, "{"+f.name+"}", url.PathEscape(given[0]))
	}
	return path, query, nil
}
