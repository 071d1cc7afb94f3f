package openapi

import (
	"encoding"
	"encoding/json"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/inbox/rollup"
)

// builder makes schemas of Go types. Named structs become components.
type builder struct {
	comments   *comments
	components openapi3.Schemas
	types      map[string]reflect.Type // of components
	err        error
}

// field is one member of a struct in JSON.
type field struct {
	reflect.StructField
	owner    reflect.Type
	written  string
	optional bool
}

// fieldsOf returns the members of a struct, including those of embedded structs, by the rules of encoding/json. Go's
// own rules differ: an embedded struct Discarded hides its own field Discarded. The tag required of an embedded struct
// names the one of its members that the outer struct requires.
func fieldsOf(t reflect.Type) []field {
	var out []field
	depths := map[string]int{}
	var walk func(t reflect.Type, depth int, required string)
	walk = func(t reflect.Type, depth int, required string) {
		for f := range t.Fields() {
			written, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.Anonymous && written == "" {
				if f.Type.Kind() == reflect.Pointer {
					f.Type = f.Type.Elem()
				}
				walk(f.Type, depth+1, f.Tag.Get("required"))
				continue
			}
			if !f.IsExported() || written == "-" || written == "" {
				continue
			}
			member := field{StructField: f, owner: t, written: written, optional: written != required && (strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero"))}
			before, known := depths[written]
			switch {
			case !known:
				out = append(out, member)
			case depth < before:
				out[slices.IndexFunc(out, func(other field) bool { return other.written == written })] = member
			default:
				continue
			}
			depths[written] = depth
		}
	}
	walk(t, 0, "")
	return out
}

var (
	timeType    = reflect.TypeFor[time.Time]()
	rawType     = reflect.TypeFor[json.RawMessage]()
	idType      = reflect.TypeFor[inbox.ID]()
	textType    = reflect.TypeFor[encoding.TextMarshaler]()
	packageName = map[string]string{"inbox": "", "read": "", "operation": "", "decide": "", "reasons": "", "control": "", "tokens": "", "logins": "", "api": "", "openapi": ""}
)

// Latency is the JSON form of a rollup.Latency, which marshals itself.
type Latency struct {
	// Count is how many acknowledgements there were.
	Count int64 `json:"count"`

	// P50 is the time in seconds within which half of them were sent. P95 and P99 are the times for 95 and 99 of 100.
	P50 float64 `json:"p50_seconds"`
	P95 float64 `json:"p95_seconds"`
	P99 float64 `json:"p99_seconds"`
}

// name returns the component name of a type: the name of the type, with its package if that says what the type is
// about.
func name(t reflect.Type) string {
	if strings.HasPrefix(t.Name(), "Page[") {
		data, _ := t.FieldByName("Data")
		row := data.Type.Elem()
		if row.Kind() == reflect.Pointer {
			row = row.Elem()
		}
		return name(row) + "Page"
	}
	if t == reflect.TypeFor[replay.Replay]() {
		return "ReplayPlan" // control.Replay is the one that is shown
	}
	prefix := path.Base(t.PkgPath())
	if known, ok := packageName[prefix]; ok {
		return known + t.Name()
	}
	prefix = strings.ToUpper(prefix[:1]) + prefix[1:]
	return prefix + strings.TrimPrefix(t.Name(), prefix)
}

// schema makes the schema of a type.
func (b *builder) schema(t reflect.Type) *openapi3.SchemaRef {
	switch {
	case t.Kind() == reflect.Pointer:
		return b.schema(t.Elem())
	case t == timeType:
		return openapi3.NewSchemaRef("", openapi3.NewDateTimeSchema())
	case t == rawType, t.Kind() == reflect.Interface:
		return openapi3.NewSchemaRef("", &openapi3.Schema{})
	case t == idType:
		return openapi3.NewSchemaRef("", openapi3.NewUUIDSchema())
	case t == reflect.TypeFor[rollup.Latency]():
		return b.schema(reflect.TypeFor[Latency]())
	case t.Implements(textType):
		return openapi3.NewSchemaRef("", openapi3.NewStringSchema())
	}
	switch t.Kind() {
	case reflect.String:
		return b.text(t)
	case reflect.Bool:
		return openapi3.NewSchemaRef("", openapi3.NewBoolSchema())
	case reflect.Int, reflect.Int64:
		return openapi3.NewSchemaRef("", openapi3.NewInt64Schema())
	case reflect.Int32, reflect.Int16, reflect.Int8, reflect.Uint8, reflect.Uint16:
		return openapi3.NewSchemaRef("", openapi3.NewInt32Schema())
	case reflect.Float32, reflect.Float64:
		return openapi3.NewSchemaRef("", openapi3.NewFloat64Schema())
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return openapi3.NewSchemaRef("", openapi3.NewBytesSchema())
		}
		array := openapi3.NewArraySchema()
		array.Items = b.schema(t.Elem())
		return openapi3.NewSchemaRef("", array)
	case reflect.Map:
		object := openapi3.NewObjectSchema()
		object.AdditionalProperties = openapi3.AdditionalProperties{Schema: b.schema(t.Elem())}
		return openapi3.NewSchemaRef("", object)
	case reflect.Struct:
		if t.Name() == "" {
			return openapi3.NewSchemaRef("", b.object(t, fieldsOf(t)))
		}
		return b.component(t)
	default:
		b.fail(fmt.Errorf("a %v has no schema", t))
		return openapi3.NewSchemaRef("", &openapi3.Schema{})
	}
}

func (b *builder) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

// text returns the schema of a string type. It describes the values and does not restrict them, because a later version
// may have more.
func (b *builder) text(t reflect.Type) *openapi3.SchemaRef {
	schema := openapi3.NewStringSchema()
	values, err := b.comments.constants(t)
	if err != nil {
		b.fail(err)
	}
	if len(values) > 0 {
		schema.Description = "One of " + strings.Join(values, ", ") + ". Later versions may know more."
	}
	return openapi3.NewSchemaRef("", schema)
}

// component returns a reference to the schema of a struct. It makes the schema once.
func (b *builder) component(t reflect.Type) *openapi3.SchemaRef {
	name := name(t)
	if b.types[name] == t {
		return openapi3.NewSchemaRef("#/components/schemas/"+name, nil)
	}
	ref := b.named(name, t, &openapi3.Schema{}) // a struct may contain itself
	schema := b.object(t, fieldsOf(t))
	schema.Description = b.comment(t, "")
	b.components[name].Value = schema
	return ref
}

// named makes a schema of a type a component, and returns a reference to it.
func (b *builder) named(name string, t reflect.Type, schema *openapi3.Schema) *openapi3.SchemaRef {
	if known := b.types[name]; known != nil {
		b.fail(fmt.Errorf("%v and %v would both be the component %s", known, t, name))
	}
	b.types[name], b.components[name] = t, openapi3.NewSchemaRef("", schema)
	return openapi3.NewSchemaRef("#/components/schemas/"+name, nil)
}

// object makes the schema of members. Clients must accept members that a later version adds.
func (b *builder) object(_ reflect.Type, fields []field) *openapi3.Schema {
	object := openapi3.NewObjectSchema()
	object.Properties = openapi3.Schemas{}
	for i := range fields {
		f := &fields[i]
		object.Properties[f.written] = b.member(f)
		if !f.optional {
			object.Required = append(object.Required, f.written)
		}
	}
	return object
}

// member makes the schema of one member, with its description.
func (b *builder) member(f *field) *openapi3.SchemaRef {
	ref := b.schema(f.Type)
	null := !f.optional && f.Type.Kind() == reflect.Pointer || f.Tag.Get("nullable") == "true"
	about := or(b.comment(f.owner, f.Name), members[f.written])
	if ref.Ref != "" {
		schema := &openapi3.Schema{Description: about, AllOf: openapi3.SchemaRefs{ref}}
		if null {
			schema = &openapi3.Schema{Description: about, AnyOf: openapi3.SchemaRefs{ref, {Value: &openapi3.Schema{Type: &openapi3.Types{"null"}}}}}
		}
		return openapi3.NewSchemaRef("", schema)
	}
	schema := ref.Value
	if null && schema.Type != nil {
		types := append(openapi3.Types{}, *schema.Type...)
		types = append(types, "null")
		schema.Type = &types
	}
	schema.Description = strings.TrimSpace(about + " " + schema.Description)
	return ref
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// comment returns the comment of a type, or of a field of it.
func (b *builder) comment(t reflect.Type, field string) string {
	text, err := b.comments.of(t, field)
	if err != nil {
		b.fail(err)
	}
	return text
}
