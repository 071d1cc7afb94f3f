package providertest_test

import (
	"mime"
	"slices"
	"testing"

	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
	"github.com/oncegate/oncegate/providers/providertest"
	"github.com/oncegate/oncegate/providers/testdata"
)

// What an entry verifies, the receiver must let through before that: a recorded delivery has
// a media type and a size that the entry takes. An entry that was taken
// over from another one and names the media type of neither answers 415 to all that its sender sends.
func TestRecordedDeliveriesAreWithinTheLimits(t *testing.T) {
	t.Parallel()
	cat := catalogtest.Load(t)
	checked := 0
	for name, p := range cat {
		vectors, err := providertest.Vectors(testdata.Files, name)
		if err != nil {
			t.Fatal(err)
		}
		limits := p.Limits()
		for i := range vectors {
			v := &vectors[i]
			if !v.Valid || v.Spec != "" || v.Kind == "handshake" {
				continue
			}
			checked++
			if int64(len(v.Body)) > limits.MaxBody {
				t.Errorf("%s/%s: %d bytes, and at most %d are taken", name, v.Case, len(v.Body), limits.MaxBody)
			}
			if name == "line" && v.Case == "sdk-middleware-not-json" {
				continue // the library's own test of its middleware; LINE sends JSON
			}
			given := v.Request().Header.Get("Content-Type")
			if given == "" || len(limits.ContentTypes) == 0 {
				continue
			}
			if media, _, err := mime.ParseMediaType(given); err != nil || !slices.Contains(limits.ContentTypes, media) {
				t.Errorf("%s/%s: %s is not among the media types that are taken, %v", name, v.Case, given, limits.ContentTypes)
			}
		}
	}
	if checked < len(cat)/2 {
		t.Errorf("only %d deliveries were looked at", checked)
	}
}
