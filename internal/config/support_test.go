package config_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/providers/catalog"
)

// loadOrRefuse loads a file. part identifies the file in failure messages. If problem is not empty,
// loading must fail with it, and the result is nil.
func loadOrRefuse(t *testing.T, part, file, problem string) *config.Config {
	t.Helper()
	c, err := config.Load(config.Options{File: "x.yml", Content: []byte(file), Environ: environ(), Catalog: loaded(t)})
	switch {
	case problem != "":
		if err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("%s: %v, want %q", part, err, problem)
		}
		return nil
	case err != nil:
		t.Errorf("%s: %v", part, err)
		return nil
	}
	if err := schemaOf(t).Validate(asJSON(t, file)); err != nil {
		t.Errorf("%s: the schema refuses what Load accepts: %v", part, err)
	}
	return c
}

// compiledSchema is the schema of the configuration file.
var compiledSchema = sync.OnceValues(func() (*jsonschema.Schema, error) {
	schema, err := config.Schema(catalog.Schema())
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(schema)
	if err != nil {
		return nil, err
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("oncegate.json", document); err != nil {
		return nil, err
	}
	return compiler.Compile("oncegate.json")
})

func schemaOf(t *testing.T) *jsonschema.Schema {
	t.Helper()
	schema, err := compiledSchema()
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// asJSON returns a YAML document as a value for the schema.
func asJSON(t *testing.T, content string) any {
	t.Helper()
	text, err := yaml.YAMLToJSON([]byte(content))
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// wantPrinted fails the test unless the effective configuration contains a text.
func wantPrinted(t *testing.T, part string, c *config.Config, want string) {
	t.Helper()
	if printed, err := yaml.Marshal(c.Effective()); err != nil || !strings.Contains(string(printed), want) {
		t.Errorf("%s is printed as\n%s, %v", part, printed, err)
	}
}
