package control_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/internal/control"
)

// suspects are names of fields that a response gives to values made of content, or a request to a search for one. A field with such
// a name has a tag, or is excused here.
var suspects = []string{"SHA256", "BodySHA256", "Hash", "Digest", "Bytes", "BodyLength", "Size", "Length", "Paths", "ConflictPaths", "Address", "Recipient", "Subject", "MessageID", "Excerpt", "Said", "Text", "Value", "Diff", "Changes", "URL", "Headers", "Result"}

var searches = []string{"EventID", "Label", "Text", "Key", "Ref", "Address", "Containing"}

// excused are fields with a suspect name, and why they need no tag.
var excused = map[string]string{
	"control.Content.Bytes":                    "the operation needs read-payload",
	"control.Revealed.Headers":                 "the operation needs read-payload",
	"control.Header.Value":                     "show_payload masks it by its name, and reveal_payload needs read-payload",
	"control.Payload.Headers":                  "the values of its headers are masked by their names",
	"control.CreatedToken.Text":                "a token, shown once to its maker",
	"control.Source.Address":                   "where a source is served",
	"control.SourceDefinition.Address":         "where a source is served",
	"control.Target.Address":                   "the address of a target in the configuration",
	"control.Reloaded.Changes":                 "keys of the configuration, without their values",
	"control.TargetTest.Address":               "the address of a target in the configuration",
	"control.SourceRoute.Address":              "the address of a target in the configuration",
	"notification.Thing.Text":                  "names and counts, and the reason of a pause, which everybody sees who sees the pause",
	"prune.Count.Bytes":                        "the sum of many rows",
	"prune.Archived.Bytes":                     "the size of many objects",
	"control.ErasedEvents.Digest":              "it is made of ids",
	"replay.Replay.Digest":                     "it is made of ids and states",
	"replay.RunStep.Result":                    "states and codes; its changes have a tag",
	"control.AddSuppressionRequest.Address":    "a decision, which the audit records",
	"control.RemoveSuppressionRequest.Address": "a decision, which the audit records",
	"control.RevokeTokenRequest.Ref":           "the name of a token",
	"control.ListProvidersRequest.Text":        "a search in the catalogue",
	"replay.DiffSide.Address":                  "a part of what has a tag",
	"replay.DiffSide.Headers":                  "a part of what has a tag",
	"replay.DiffBody.Bytes":                    "a part of what has a tag",
	"replay.DiffBody.SHA256":                   "a part of what has a tag",
}

// A field that may show content, or search for it, says so. A new operation whose author forgot it fails here.
func TestFieldsOfContentHaveATag(t *testing.T) {
	t.Parallel()
	kinds := map[string]bool{}
	for _, row := range control.Metadata() {
		kinds[string(row.Kind)] = true
		if row.See == "" || row.What == "" || row.See != control.ReadMetadata && row.Without == "" || row.Search != "" && row.Search != row.See {
			t.Errorf("the row of %s lacks something, or its search needs another scope than its values: %+v", row.Kind, row)
		}
	}
	check := func(root reflect.Type, names []string, tag string) {
		seen := map[reflect.Type]bool{}
		var walk func(reflect.Type)
		walk = func(typ reflect.Type) {
			for slices.Contains([]reflect.Kind{reflect.Pointer, reflect.Slice, reflect.Map}, typ.Kind()) {
				typ = typ.Elem()
			}
			if typ.Kind() != reflect.Struct || seen[typ] {
				return
			}
			seen[typ] = true
			for f := range typ.Fields() {
				name := typ.String() + "." + f.Name
				for kind := range strings.SplitSeq(f.Tag.Get(tag), ",") {
					if kind, _ = strings.CutSuffix(kind, "/path"); kind != "" && !kinds[kind] {
						t.Errorf("%s is of the unknown kind %q", name, kind)
					}
				}
				if f.IsExported() && slices.Contains(names, f.Name) && f.Tag.Get(tag) == "" && f.Tag.Get("json") != "-" && excused[name] == "" {
					t.Errorf("%s may be content: give it the tag %s with its kind, or excuse it in this test", name, tag)
				}
				if f.Tag.Get(tag) == "" {
					walk(f.Type)
				}
			}
		}
		walk(root)
	}
	for _, operation := range control.Operations() {
		d := operation.Describe()
		check(d.Response, suspects, "shows")
		check(d.Request, searches, "searches")
	}
}
