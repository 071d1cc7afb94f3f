package reference_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// TestSchema checks that every file of the catalogue is valid by the published schema, and that the
// schema refuses invalid files.
func TestSchema(t *testing.T) {
	t.Parallel()
	var schema map[string]any
	if err := json.Unmarshal([]byte(read(t, "../../catalog/schema.json")), &schema); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../../catalog/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, problem := range validate(t, schema, string(text)) {
			t.Errorf("%s: %s", filepath.Base(file), problem)
		}
	}
	for _, wrong := range []string{
		"colour: red", "verify: { family: [hmac] }", "verify: { signed: [nonsense] }", "windows: { floor: soon }",
		"request: { max_body: much }", "ack: { status: many }", "body: { form: perhaps }", "verify: { signed: [{ sound: loud }] }",
	} {
		if len(validate(t, schema, wrong)) == 0 {
			t.Errorf("%s passes the schema", wrong)
		}
	}
}

func validate(t *testing.T, schema map[string]any, text string) []string {
	t.Helper()
	var doc any
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	v := validator{schema["$defs"].(map[string]any)}
	return v.check(map[string]any{"$ref": schema["$ref"]}, doc, "$")
}

// validator knows as much of JSON Schema as our schema uses.
type validator struct{ defs map[string]any }

func (v *validator) check(schema map[string]any, value any, at string) []string {
	if ref, ok := schema["$ref"].(string); ok {
		return v.check(v.defs[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any), value, at)
	}
	if choices, ok := schema["anyOf"].([]any); ok {
		var problems []string
		for _, one := range choices {
			found := v.check(one.(map[string]any), value, at)
			if len(found) == 0 {
				return nil
			}
			problems = append(problems, found...)
		}
		return problems
	}
	if !typed(schema["type"], value) {
		return []string{fmt.Sprintf("%s: %T is not %v", at, value, schema["type"])}
	}
	text, isText := value.(string)
	if list, ok := schema["enum"].([]any); ok && !slices.Contains(list, any(text)) {
		return []string{at + ": not one of the words"}
	}
	if pattern, ok := schema["pattern"].(string); ok && isText && !regexp.MustCompile(pattern).MatchString(text) {
		return []string{at + ": has another form"}
	}
	var problems []string
	switch value := value.(type) {
	case []any:
		for i, item := range value {
			problems = append(problems, v.check(schema["items"].(map[string]any), item, fmt.Sprintf("%s[%d]", at, i))...)
		}
	case map[string]any:
		properties, _ := schema["properties"].(map[string]any)
		for name, item := range value {
			property, known := properties[name].(map[string]any)
			if !known {
				if property, known = schema["additionalProperties"].(map[string]any); !known {
					problems = append(problems, at+"."+name+": unknown")
					continue
				}
			}
			problems = append(problems, v.check(property, item, at+"."+name)...)
		}
	}
	return problems
}

func typed(want, value any) bool {
	if list, ok := want.([]any); ok {
		return slices.ContainsFunc(list, func(one any) bool { return typed(one, value) })
	}
	switch value.(type) {
	case string:
		return want == "string"
	case bool:
		return want == "boolean"
	case []any:
		return want == "array"
	case map[string]any:
		return want == "object"
	case uint64, int64, int:
		return want == "integer" || want == "number"
	case float64:
		return want == "number"
	}
	return false
}
