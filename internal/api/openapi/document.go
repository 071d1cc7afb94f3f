package openapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/oncegate/oncegate/internal/api"
	"github.com/oncegate/oncegate/internal/control"
)

const about = `What people and programs can ask of Oncegate, and have it do. The private listener serves it.

Lists answer pages: ` + "`data`, and `next` where `has_more` says that there is more. Hand `next` back as `after`, with the same filter. " +
	`A list that ran out of time returns the rows that it found, with ` + "`searched_to`" + `; ` + "`next`" + ` continues from there.

What fails is answered with a problem document (RFC 9457). Programs read its ` + "`code`" + `. Every answer has an X-Request-Id, by which the log of the server
names it. Members may be added to answers; those that are there keep their names and meanings.`

// Build makes the description. root is the directory of the module's source.
func Build(root string) (*openapi3.T, error) {
	b := &builder{comments: newComments(root), components: openapi3.Schemas{}, types: map[string]reflect.Type{}}
	document := &openapi3.T{
		OpenAPI: "3.1.0",
		Info:    &openapi3.Info{Title: "Oncegate", Version: "1", Description: about, License: &openapi3.License{Name: "See the file LICENSE"}},
		Servers: openapi3.Servers{{URL: api.Prefix}},
		Paths:   openapi3.NewPaths(),
		Components: &openapi3.Components{
			Schemas: b.components,
			SecuritySchemes: openapi3.SecuritySchemes{"token": {Value: &openapi3.SecurityScheme{
				Type: "http", Scheme: "bearer", Description: "A token of `oncegate tokens create`.",
			}}},
			Responses: openapi3.ResponseBodies{},
			Parameters: openapi3.ParametersMap{"Database": {Value: openapi3.NewHeaderParameter("Oncegate-Database").WithSchema(openapi3.NewStringSchema()).WithDescription(
				"The name of the database that carries the request out, of a server with several. Without it, those do that the request concerns: the one in which the source lives or that has the object, all of them for a list, otherwise the default one.")}},
		},
		Security: openapi3.SecurityRequirements{{"token": {}}},
	}
	document.Components.Responses["Problem"] = &openapi3.ResponseRef{Value: b.problem()}
	tags := map[string]bool{}
	for _, operation := range control.Operations() {
		d := operation.Describe()
		document.AddOperation(d.Path, d.Method, b.operation(&d))
		if tag := tagOf(&d); !tags[tag] {
			tags[tag] = true
			document.Tags = append(document.Tags, &openapi3.Tag{Name: tag})
		}
	}
	return document, b.err
}

// Text returns the committed text of a description.
func Text(document *openapi3.T) ([]byte, error) {
	text, err := json.MarshalIndent(document, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("writing the description of the API: %w", err)
	}
	return append(text, '\n'), nil
}

// tagOf returns the noun of an operation.
func tagOf(d *control.Description) string {
	noun, _, _ := strings.Cut(strings.TrimPrefix(d.Path, "/"), "/")
	return noun
}

func (b *builder) problem() *openapi3.Response {
	var codes []string
	for _, row := range control.Codes() {
		codes = append(codes, fmt.Sprintf("%s (%d)", row.Code, row.Status))
	}
	schema := b.schema(reflect.TypeFor[api.ProblemDocument]())
	b.components["ProblemDocument"].Value.Properties["code"].Value.Description = "Why the request failed, for programs: " + strings.Join(codes, ", ") + ". Later versions may know more."
	text := "The request failed; the document says why, and what to do."
	return &openapi3.Response{Description: &text, Headers: headers("X-Request-Id"), Content: openapi3.Content{"application/problem+json": &openapi3.MediaType{Schema: schema}}}
}

func (b *builder) operation(d *control.Description) *openapi3.Operation {
	out := &openapi3.Operation{
		OperationID: d.ID, Summary: strings.TrimSuffix(d.Summary, "."), Tags: []string{tagOf(d)},
		Description: d.Summary + " It needs the scope `" + string(d.Scope) + "`.",
		Responses:   openapi3.NewResponses(),
		Extensions:  map[string]any{"x-oncegate-scope": d.Scope},
	}
	out.Parameters = append(out.Parameters, &openapi3.ParameterRef{Ref: "#/components/parameters/Database"})
	out.Responses = openapi3.NewResponses(openapi3.WithStatus(http.StatusOK, &openapi3.ResponseRef{Value: b.answer(d)}),
		openapi3.WithName("default", &openapi3.Response{}))
	out.Responses.Set("default", &openapi3.ResponseRef{Ref: "#/components/responses/Problem"})
	if d.Method == http.MethodGet && d.Response != reflect.TypeFor[control.Content]() {
		text := "The answer is still the one with the ETag that If-None-Match names. It has no body."
		out.Responses.Set("304", &openapi3.ResponseRef{Value: &openapi3.Response{Description: &text, Headers: headers("X-Request-Id", "ETag", "Oncegate-Data-As-Of")}})
		out.AddParameter(openapi3.NewHeaderParameter("If-None-Match").WithSchema(openapi3.NewStringSchema()).WithDescription(
			"The ETag of an answer that you have. If it is still the answer, the status is 304, without a body."))
	}
	if reflect.PointerTo(d.Request).Implements(reflect.TypeFor[interface{ SetIfMatch(tag string) }]()) {
		out.AddParameter(openapi3.NewHeaderParameter("If-Match").WithSchema(openapi3.NewStringSchema()).WithDescription(
			"The ETag of the answer that showed what the decision is about. If it has changed since, nothing is done."))
	}
	if d.Method == http.MethodPost && !d.Reads {
		out.AddParameter(openapi3.NewHeaderParameter("Idempotency-Key").WithSchema(openapi3.NewStringSchema()).WithDescription(
			"Names the request, so that it happens once however often it is sent. The answer is repeated, with Idempotent-Replayed."))
	}
	var members []field
	fields := fieldsOf(d.Request)
	for i := range fields {
		f := &fields[i]
		switch {
		case strings.Contains(d.Path, "{"+f.written+"}"):
			out.AddParameter(b.parameter(openapi3.NewPathParameter(f.written), f))
		case d.Method == http.MethodGet || d.Method == http.MethodDelete:
			parameter := openapi3.NewQueryParameter(f.written)
			parameter.Required = !f.optional
			out.AddParameter(b.parameter(parameter, f))
		default:
			members = append(members, *f)
		}
	}
	if d.Method != http.MethodGet && d.Method != http.MethodDelete {
		out.RequestBody = b.body(d, members)
	}
	return out
}

// body describes the body of a request. Its schema is a component because some generators only refer to the type of an
// inline schema and do not make it. The name ends in Body because generators make types of their own that end in Request,
// Response, Params and Data.
func (b *builder) body(d *control.Description, members []field) *openapi3.RequestBodyRef {
	object := b.object(d.Request, members)
	object.Description = b.comment(d.Request, "")
	object.AdditionalProperties = openapi3.AdditionalProperties{Has: new(false)}
	ref := b.named(pascal(d.ID)+"Body", d.Request, object)
	return &openapi3.RequestBodyRef{Value: openapi3.NewRequestBody().WithRequired(len(object.Required) > 0).WithJSONSchemaRef(ref)}
}

// pascal returns an operation's id such as list_events as ListEvents.
func pascal(id string) string {
	var name strings.Builder
	for word := range strings.SplitSeq(id, "_") {
		name.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return name.String()
}

func (b *builder) parameter(p *openapi3.Parameter, f *field) *openapi3.Parameter {
	p.Schema = b.member(f)
	p.Description, p.Schema.Value.Description = p.Schema.Value.Description, ""
	if example := examples[f.written]; p.Schema.Value.Type.Is("string") || f.Type.Kind() == reflect.Int {
		p.Example = example
	}
	return p
}

// examples are example values of parameters, by name.
var examples = map[string]any{
	"source": "stripe", "route": "ledger", "target": "ledger", "type": "invoice.paid", "limit": 50, "since": "2026-11-20T12:00:00Z",
	"until": "2026-11-21T12:00:00Z", "id": "0199aaaa-0000-7000-8000-000000000001", "cause": "mismatch", "tenant": "acme",
}

// answer describes the answer of an operation that succeeded.
func (b *builder) answer(d *control.Description) *openapi3.Response {
	text := "What was asked for."
	out := &openapi3.Response{Description: &text, Headers: headers("X-Request-Id")}
	if d.Response == reflect.TypeFor[control.Content]() {
		out.Content = openapi3.Content{"application/octet-stream": &openapi3.MediaType{Schema: openapi3.NewSchemaRef("", &openapi3.Schema{Type: &openapi3.Types{"string"}, Format: "binary"})}}
		return out
	}
	switch d.Method {
	case http.MethodGet:
		out.Headers = headers("X-Request-Id", "ETag", "Oncegate-Data-As-Of")
	case http.MethodPost:
		out.Headers = headers("X-Request-Id", "Oncegate-Data-As-Of")
		if !d.Reads {
			out.Headers = headers("X-Request-Id", "Idempotent-Replayed")
		}
	}
	out.Content = openapi3.NewContentWithJSONSchemaRef(b.schema(d.Response))
	return out
}

// headerTexts describes the headers of answers.
var headerTexts = map[string]string{
	"X-Request-Id":        "The id of the request, by which the log of the server names it.",
	"ETag":                "Names the state that the answer shows: If-Match and If-None-Match take it.",
	"Oncegate-Data-As-Of": "The time, by the server's clock, up to which the answer certainly shows everything. It is there only if the server reads its lists from a standby.",
	"Idempotent-Replayed": "`true` if the request had happened before under its Idempotency-Key: this is what was answered then.",
}

// headers describes the named headers of an answer.
func headers(names ...string) openapi3.Headers {
	out := openapi3.Headers{}
	for _, name := range names {
		out[name] = &openapi3.HeaderRef{Value: &openapi3.Header{Parameter: openapi3.Parameter{
			Description: headerTexts[name], Schema: openapi3.NewSchemaRef("", openapi3.NewStringSchema()),
		}}}
	}
	return out
}
