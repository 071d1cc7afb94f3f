package config

import (
	"maps"
	"regexp"
	"strconv"
	"strings"
)

// jsonSchema is a JSON Schema, or a part of one.
type jsonSchema map[string]any

// The schemas of values. The file's grammar takes the text of a single value with or without quotes,
// so a number may be written as a string and a text may look like a number.
var (
	scalar         = jsonSchema{"type": []string{"string", "number", "boolean"}}
	durationSchema = jsonSchema{"type": "string", "pattern": "^([0-9]+([.][0-9]+)?(ms|s|m|h|d|w))+$"}
	sizeSchema     = jsonSchema{"type": []string{"integer", "string"}, "pattern": "^[0-9]+ *([KMG]iB|[kMG]?B)?$", "minimum": 1}
	secretSchema   = anyOf(jsonSchema{"type": "string", "pattern": "^(env|file):."}, defined("secret"))
	fieldSchema    = anyOf(scalar, jsonSchema{
		"type": "object", "properties": jsonSchema{"field": scalar, "default": scalar}, "required": []string{"field"}, "additionalProperties": false,
	})
)

func integerFrom(least int) jsonSchema {
	return jsonSchema{"type": []string{"integer", "string"}, "pattern": "^[0-9]+$", "minimum": least}
}

// enum accepts the given words. A word that is a number may be written as a number.
func enum[T ~string](words ...T) jsonSchema {
	values := make([]any, 0, len(words))
	for _, word := range words {
		values = append(values, word)
		if n, err := strconv.Atoi(string(word)); err == nil {
			values = append(values, n)
		}
	}
	return jsonSchema{"enum": values}
}

func anyOf(schemas ...jsonSchema) jsonSchema { return jsonSchema{"anyOf": schemas} }

// oneOrMore accepts a list, or one element alone.
func oneOrMore(element jsonSchema) jsonSchema {
	return anyOf(element, jsonSchema{"type": []string{"array", "null"}, "items": element})
}

// mappingOf accepts a mapping with free keys.
func mappingOf(member jsonSchema) jsonSchema {
	return jsonSchema{"type": []string{"object", "null"}, "additionalProperties": member}
}

// defined refers to the schema of a section.
func defined(section string) jsonSchema { return jsonSchema{"$ref": "#/$defs/" + section} }

// Schema returns the JSON Schema of the configuration file, for editors. Every file that [Load]
// accepts is valid. Load also checks what a schema cannot express.
func Schema() any {
	root, defs, targets := jsonSchema{}, jsonSchema{}, []jsonSchema{}
	for _, s := range Sections() {
		object := s.schema()
		if s.Name == "configuration" {
			root = object
			continue
		}
		defs[s.name()] = object
		if strings.HasPrefix(s.Name, "target ") {
			targets = append(targets, defined(s.name()))
		}
	}
	defs["target"] = jsonSchema{"oneOf": targets}
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "Configuration of Oncegate"
	root["$defs"] = defs
	return root
}

// name returns the name of the section's schema, without a space because references are URIs.
func (s *Section) name() string { return strings.ReplaceAll(s.Name, " ", "_") }

// schema returns the schema of a section. It requires no key except the kind of a target, because
// editors report a missing key on every mapping that is being written.
func (s *Section) schema() jsonSchema {
	properties := jsonSchema{}
	for _, k := range s.Keys {
		property := maps.Clone(k.schema)
		property["description"] = plainText(k.Text)
		if text, ok := k.literal(); ok && !strings.HasPrefix(text, "[") {
			property["default"] = text
		}
		properties[k.Name] = property
	}
	return jsonSchema{"type": []string{"object", "null"}, "properties": properties, "additionalProperties": false}
}

var markdownLink = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)

// plainText removes the links from Markdown, because they are relative to a page.
func plainText(markdown string) string { return markdownLink.ReplaceAllString(markdown, "$1") }
