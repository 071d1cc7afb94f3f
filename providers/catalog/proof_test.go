package catalog_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog"
	"github.com/oncegate/oncegate/providers/providertest"
	"github.com/oncegate/oncegate/providers/testdata"
)

// maxUnproved is how many entries of the catalogue may rest on documentation alone.
const maxUnproved = 28

// These forms are required of the source of a vector, by its proof. A source that only says what
// was read, and that the vector was signed here, fits none of them.
var proofSources = map[string]*regexp.Regexp{
	"vendor": regexp.MustCompile(`official vector|RFC \d{4}|https://|@[0-9a-f]{7}|libraries/|lib/testdata|tests?/|\.spec\.`),
	// A package with its version, or the sender's code with its commit.
	"library":     regexp.MustCompile(`[\w/.-]+(@| )v?\d+\.\d+|@[0-9a-f]{7}`),
	"capture":     regexp.MustCompile(`received and published.*https://`),
	"third-party": regexp.MustCompile(`(accepted by|signed with) \S+@(v?\d+\.\d+|[0-9a-f]{7})`),
}

// ownOrigins are those of vectors that Oncegate signed. They prove nothing unless somebody else
// accepted them.
var ownOrigins = []string{"own", "computed", "computed-per-docs", ""}

// TestProofs requires that each entry, and each of its modes, claims exactly the strongest proof that
// its vectors show.
func TestProofs(t *testing.T) {
	t.Parallel()
	loaded, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	unproved := 0
	for name, p := range loaded {
		spec := p.Spec()
		if spec.ProvedBy == "" {
			t.Errorf("%s: proved_by is missing", name)
		}
		best := map[string]string{}
		vectors, err := providertest.Vectors(testdata.Files, name)
		if err != nil {
			t.Fatal(err)
		}
		for i := range vectors {
			v := &vectors[i]
			if v.ProvedBy == "" {
				continue
			}
			form := proofSources[v.ProvedBy]
			switch {
			case form == nil:
				t.Errorf("%s/%s: proved_by %q is no proof", name, v.Case, v.ProvedBy)
			case !v.Valid || v.Kind == "handshake" || v.Spec != "" && !strings.Contains(v.Spec, "extends: "+name+"\n"):
				t.Errorf("%s/%s: only a valid delivery of the entry is a proof", name, v.Case)
			case !form.MatchString(v.Source):
				t.Errorf("%s/%s: the source of a proof by %s does not name it: %s", name, v.Case, v.ProvedBy, v.Source)
			case v.ProvedBy == "vendor" && slices.Contains(ownOrigins, v.Origin) && !regexp.MustCompile(`official vector|^RFC \d{4}|lib/testdata`).MatchString(v.Source):
				t.Errorf("%s/%s: a vector that was signed here is not the vendor's: %s", name, v.Case, v.Source)
			}
			mode := p.ModeName(v.Request())
			best[mode] = stronger(best[mode], v.ProvedBy)
		}
		for i, way := range p.ProofOf() {
			if shown := stronger(best[way.Mode], ""); shown != way.By {
				t.Errorf("%s, mode %s: claims proved_by %s, and its vectors show %s", name, way.Mode, way.By, shown)
			}
			if i > 0 && spec.Modes[i-1].ProvedBy == "" {
				t.Errorf("%s, mode %s: proved_by is missing", name, way.Mode)
			}
		}
		counts[spec.ProvedBy]++
		if len(p.UnconfirmedModes()) > 0 && !p.IsMessage() { // which reads the messages of any publisher, and has no sender to prove
			unproved++
		}
	}
	if unproved > maxUnproved {
		t.Errorf("%d entries are unproved, at most %d may be", unproved, maxUnproved)
	}
	t.Logf("%v; %d unproved", counts, unproved)
}

// stronger returns the stronger of two proofs. An empty one is documentation.
func stronger(a, b string) string {
	for _, by := range providers.Proofs() {
		if a == by || b == by {
			return by
		}
	}
	return "documentation"
}

// TestClaimsAreChecked shows that the test above notices a claim without a proof: documentation is
// the weakest, and an unknown word is refused by the schema.
func TestClaimsAreChecked(t *testing.T) {
	t.Parallel()
	if got := stronger("third-party", "vendor"); got != "vendor" {
		t.Errorf("the stronger of third-party and vendor is %s", got)
	}
	if got := stronger("", ""); got != "documentation" {
		t.Errorf("without a proof: %s", got)
	}
	text := "docs: https://example.com\nproved_by: hearsay\nverify: { family: none }\nidentity: { mode: digest }\n"
	if _, err := providers.Parse("acme", []byte(text)); err == nil {
		t.Error("proved_by: hearsay is accepted")
	}
	if proofSources["library"].MatchString("members of https://example.com, values of our own; signed with Python's hmac") {
		t.Error("a source that names no library passes as a library's")
	}
}
