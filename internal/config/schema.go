package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"
)

// jsonSchema is a JSON Schema, or a part of one.
type jsonSchema map[string]any

// schema returns a JSON Schema. It is a function because every source and every route declares its keys, and only [Schema] needs their
// schemas. Building them for each declaration took half the time of reading 10,000 sources.
type schema func() jsonSchema

// exactly is a schema that depends on nothing.
func exactly(s jsonSchema) schema { return func() jsonSchema { return s } }

// The schemas of values. In the file, a number may be written with quotes and a text without, so
// most of them accept several types.
var (
	scalar         = exactly(jsonSchema{"type": []string{"string", "number", "boolean"}})
	durationSchema = exactly(jsonSchema{"type": "string", "pattern": "^([0-9]+([.][0-9]+)?(ms|s|m|h|d|w))+$"})
	sizeSchema     = exactly(jsonSchema{"type": []string{"integer", "string"}, "pattern": "^[0-9]+ *([KMG]iB|[kMG]?B)?$", "minimum": 1})
	secretSchema   = anyOf(exactly(jsonSchema{"type": "string", "pattern": "^(env|file):."}), defined("secret"))
	fieldSchema    = anyOf(scalar, func() jsonSchema {
		return jsonSchema{
			"type": "object", "properties": jsonSchema{"field": scalar(), "default": scalar()}, "required": []string{"field"}, "additionalProperties": false,
		}
	})
)

func integerFrom(least int) schema {
	return func() jsonSchema {
		return jsonSchema{"type": []string{"integer", "string"}, "pattern": "^[0-9]+$", "minimum": least}
	}
}

// enum accepts the given words. A word that is a number may be written as a number.
func enum(words ...string) schema {
	return func() jsonSchema {
		values := make([]any, 0, len(words))
		for _, word := range words {
			values = append(values, word)
			if typed := typedValue(word); typed != word {
				values = append(values, typed)
			}
		}
		return jsonSchema{"enum": values}
	}
}

// typedValue returns a number or a boolean for the text of one, and any other text unchanged.
func typedValue(text string) any {
	if n, err := strconv.Atoi(text); err == nil {
		return n
	}
	if text == "true" || text == "false" {
		return text == "true"
	}
	return text
}

func anyOf(schemas ...schema) schema {
	return func() jsonSchema {
		forms := make([]jsonSchema, len(schemas))
		for i, s := range schemas {
			forms[i] = s()
		}
		return jsonSchema{"anyOf": forms}
	}
}

// oneOrMore accepts a list, or one element alone.
func oneOrMore(element schema) schema {
	return anyOf(element, func() jsonSchema {
		return jsonSchema{"type": []string{"array", "null"}, "items": element()}
	})
}

// mappingOf accepts a mapping with free keys.
func mappingOf(member schema) schema {
	return func() jsonSchema {
		return jsonSchema{"type": []string{"object", "null"}, "additionalProperties": member()}
	}
}

// defined refers to the schema of a section.
func defined(section string) schema {
	return func() jsonSchema { return jsonSchema{"$ref": "#/$defs/" + section} }
}

// Schema returns the JSON Schema of the configuration file, for editors. It accepts every file that
// [Load] accepts. provider is the schema of a file of the catalog.
func Schema(provider []byte) (any, error) {
	var root, custom jsonSchema
	if err := json.Unmarshal(provider, &custom); err != nil {
		return nil, fmt.Errorf("reading the schema of providers: %w", err)
	}
	defs, ok := custom["$defs"].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("the schema of providers has no $defs")
	}
	var targets []jsonSchema
	for _, s := range Sections() {
		name, section := strings.ReplaceAll(s.Name, " ", "_"), s.schema()
		switch {
		case s.Name == "configuration":
			root = section
			continue
		case strings.HasPrefix(s.Name, "target "):
			section["required"] = []string{"kind"}
			targets = append(targets, defined(name)())
		}
		defs[name] = section
	}
	defs["target"] = jsonSchema{"oneOf": targets}
	defs["provider"] = jsonSchema{"$ref": custom["$ref"]}
	root["$schema"] = custom["$schema"]
	root["title"] = "The configuration of Oncegate"
	root["$defs"] = defs
	return root, nil
}

// schema returns the schema of a section. No key is required, because an environment variable, a
// handler or another key may stand in for it.
func (s *Section) schema() jsonSchema {
	properties := jsonSchema{}
	for _, k := range s.Keys {
		property := maps.Clone(k.schema())
		property["description"] = markdownLink.ReplaceAllString(k.Text, "$1")
		if text, ok := k.literal(); ok && !strings.HasPrefix(text, "[") {
			property["default"] = typedValue(text)
		}
		properties[k.Name] = property
	}
	return jsonSchema{"type": []string{"object", "null"}, "properties": properties, "additionalProperties": false}
}

// markdownLink matches a link. Links are relative to a page, so an editor cannot follow them.
var markdownLink = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
