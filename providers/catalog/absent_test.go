package catalog_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog"
)

// part is one that a provider may lack.
type part struct {
	path         string
	undocumented bool // the documentation does not say; otherwise the provider has none
	said         func(s *providers.Spec) bool
}

// optional lists the parts of a spec that a provider may lack. Each has a function that reports
// whether a spec sets the part.
var optional = []part{
	{"verify.timestamp", false, func(s *providers.Spec) bool {
		// A token has its own times, which its family checks.
		return s.Verify.Timestamp.From != "none" || slices.Contains([]string{"jwt", "messagebird", "event-grid", "microsoft-graph"}, s.Verify.Family)
	}},
	{"handshakes", false, func(s *providers.Spec) bool { return len(s.Handshakes) > 0 }},
	{"split", false, func(s *providers.Spec) bool { return s.Split.JSON != "" || s.Split.Form != "" }},
	{"occurred_at", false, func(s *providers.Spec) bool { return len(s.OccurredAt) > 0 }},
	{"sequence", false, func(s *providers.Spec) bool { return s.Sequence.Kind != "none" }},
	{"volatile", false, func(s *providers.Spec) bool { return len(s.Volatile) > 0 }},
	{"windows.retry", false, func(s *providers.Spec) bool { return s.Windows.Retry.For > 0 }},
	{"request.content_types", true, func(s *providers.Spec) bool { return len(s.Request.ContentTypes) > 0 }},
	{"windows.resend", true, func(s *providers.Spec) bool { return s.Windows.Resend.For > 0 }},
	{"windows.list", true, func(s *providers.Spec) bool { return s.Windows.List.For > 0 }},
	{"windows.ack_within", true, func(s *providers.Spec) bool { return s.Windows.AckWithin > 0 }},
}

// Every file says something of every part, or says that there is nothing to say;
// and what it assumes without having read it is marked as such.
func TestFilesAreComplete(t *testing.T) {
	t.Parallel()
	loaded, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range loaded {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := p.Spec()
			for _, part := range optional {
				list, other, word := s.None, s.Undocumented, "none"
				if part.undocumented {
					list, other, word = s.Undocumented, s.None, "undocumented"
				}
				switch listed := slices.Contains(list, part.path); {
				case listed && part.said(s):
					t.Errorf("%s is given and is listed under %s", part.path, word)
				case !listed && !part.said(s):
					t.Errorf("%s is neither given nor listed under %s", part.path, word)
				case slices.Contains(other, part.path):
					t.Errorf("%s is listed under the wrong of none and undocumented", part.path)
				}
			}
			for _, path := range slices.Concat(s.None, s.Undocumented) {
				if !slices.ContainsFunc(optional, func(p part) bool { return p.path == path }) {
					t.Errorf("%s cannot be listed: it must be given", path)
				}
			}
			for what, given := range map[string]bool{
				"title": s.Title != "", "docs": strings.HasPrefix(s.Docs, "https://"), "verify.authenticates": s.Verify.Authenticates != "",
				"request.max_body": s.Request.MaxBody > 0, "type": len(s.Type) > 0 || p.IsOperation(), "example": s.Example.Body != "",
				"identity":       s.Identity.Mode == "level" || s.Identity.Mode == "digest" || len(s.Identity.Candidates)+len(s.Identity.Hash) > 0 || p.IsOperation(),
				"windows.floor":  s.Windows.Floor >= 3*max(s.Windows.Retry.For, s.Windows.Resend.For, s.Windows.List.For) && s.Windows.Floor > 0,
				"acknowledgment": p.Answer(providers.Accepted, "id", "recorded").Status/100 == 2,
				"refusal":        p.Answer(providers.Refused, "", "").Status >= 400,
			} {
				if !given {
					t.Errorf("%s is missing", what)
				}
			}
			for path, w := range map[string]providers.WindowSpec{"windows.retry": s.Windows.Retry, "windows.resend": s.Windows.Resend, "windows.list": s.Windows.List} {
				weak := s.Confidence[path] == "unread" || s.Confidence[path] == "secondary"
				switch {
				case w.For == 0:
				case w.Source == "" && w.Note == "":
					t.Errorf("%s has neither a source nor a note", path)
				case w.Source == "" && !weak && !assumed[name]:
					t.Errorf("%s has no source, and confidence does not say so", path)
				}
			}
		})
	}
}

// assumed lists the generic providers, which have no sender's documentation.
var assumed = map[string]bool{
	"hmac": true, "token": true, "generic-basic": true, "generic-ip-allowlist": true, "generic-jwt": true, "generic-mtls": true,
	"rfc9421": true, "rfc9530": true, "cloudevents": true, "operation": true, "message": true,
}
