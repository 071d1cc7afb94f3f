package providers_test

import (
	"bytes"
	"fmt"
	"maps"
	"mime/multipart"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
)

// hostile is a request that means to cost more than it is.
type hostile struct {
	name, contentType, url string
	body                   []byte
	header                 http.Header
}

func hostiles(tb testing.TB) []hostile {
	tb.Helper()
	nested := func(opened, closed string, n int) []byte {
		return []byte(strings.Repeat(opened, n) + strings.Repeat(closed, n))
	}
	var parts bytes.Buffer
	w := multipart.NewWriter(&parts)
	for i := range 10_000 {
		if err := w.WriteField(fmt.Sprint("f", i), "v"); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	var members, form strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&members, `"%d":0,`, i)
		fmt.Fprintf(&form, "&%d=", i)
	}
	many := http.Header{}
	for i := range 2_000 {
		many.Set(fmt.Sprintf("X-Header-%d", i), "0123456789abcdef0123456789abcdef")
	}
	several := http.Header{"X-Signature": slices.Repeat([]string{"a, 'b'=%63"}, 5_000)}
	long := http.Header{}
	for _, name := range []string{"X-Forwarded-Host", "X-Original-Host", "Host", "X-Signature", "Authorization"} {
		long.Set(name, strings.Repeat("a.", 100_000))
	}
	const jsonType = "application/json"
	return []hostile{
		{name: "opened arrays", contentType: jsonType, body: bytes.Repeat([]byte("["), 16<<10)},
		{name: "deep arrays", contentType: jsonType, body: nested("[", "]", 8<<10)},
		{name: "deep objects", contentType: jsonType, body: []byte(strings.Repeat(`{"a":`, 4<<10) + "0" + strings.Repeat("}", 4<<10))},
		{name: "opened objects", contentType: jsonType, body: bytes.Repeat([]byte(`{"a":`), 4<<10)},
		{name: "wide and deep arrays", contentType: jsonType, body: []byte(strings.Repeat("[", 1<<10) + strings.Repeat("0,", 64<<10) + "0" + strings.Repeat("]", 1<<10))},
		{name: "empty objects", contentType: jsonType, body: []byte("[" + strings.Repeat("{},", 300_000) + "0]")},
		{name: "members", contentType: jsonType, body: []byte("{" + members.String() + `"x":1}`)},
		{name: "numbers", contentType: jsonType, body: []byte("[" + strings.Repeat("1e308,", 50_000) + "1e308]")},
		{name: "letters", contentType: jsonType, body: []byte(`"` + strings.Repeat("\U0001f600/<", 100_000) + `"`)},
		{name: "XML", contentType: "application/xml", body: []byte(strings.Repeat("<a>", 50_000) + strings.Repeat("</a>", 50_000))},
		{name: "XML attributes", contentType: "text/xml", body: []byte("<a " + strings.Repeat(`b="c" `, 50_000) + "/>")},
		{name: "XML entities", contentType: "text/xml", body: []byte(`<!DOCTYPE a [<!ENTITY b "` + strings.Repeat("c", 1000) + `">]><a>` + strings.Repeat("&b;", 10_000) + "</a>")},
		{name: "multipart", contentType: w.FormDataContentType(), body: parts.Bytes()},
		{name: "form", contentType: "application/x-www-form-urlencoded", body: []byte(form.String()[1:])},
		{name: "form of one name", contentType: "application/x-www-form-urlencoded", body: []byte(strings.Repeat("a&", 100_000) + "a=1")},
		{name: "percent", contentType: "application/x-www-form-urlencoded", body: []byte("a=" + strings.Repeat("%F0%9F%98%80", 20_000))},
		{name: "many headers", contentType: jsonType, body: []byte(`{}`), header: many},
		{name: "one header often", contentType: jsonType, body: []byte(`{}`), header: several},
		{name: "long headers", contentType: jsonType, body: []byte(`{}`), header: long},
		{name: "long address", contentType: jsonType, body: []byte(`{}`), url: "https://example.com/" + strings.Repeat("a/", 200_000) + "?b=" + strings.Repeat("c", 200_000)},
		{name: "large", contentType: jsonType, body: []byte(`{"a":[` + strings.Repeat(`"ë/<",`, 1<<19) + `1]}`)},
	}
}

// request adds the headers that the provider reads, so that the search has something to try.
func (h *hostile) request(p *providers.Provider) *providers.Request {
	header := h.header.Clone()
	if header == nil {
		header = http.Header{}
	}
	for _, name := range p.Spec().Verify.Signature.Headers {
		if values := header["X-Signature"]; len(values) > 0 {
			header[http.CanonicalHeaderKey(name)] = values
		} else {
			header.Set(name, p.Spec().Verify.Signature.Prefix+"t=1,v1="+strings.Repeat("00", 32))
		}
	}
	header.Set("Content-Type", h.contentType)
	url := h.url
	if url == "" {
		url = "https://example.com/in/shop?a=b"
	}
	return &providers.Request{Method: http.MethodPost, URL: url, Header: header, Body: h.body, ReceivedAt: diagnosedAt}
}

// shapes returns one provider for each way of verifying and reading a request.
func shapes(tb testing.TB) []*providers.Provider {
	tb.Helper()
	cat := catalogtest.Load(tb)
	seen := map[string]bool{}
	var out []*providers.Provider
	for _, name := range slices.Sorted(maps.Keys(cat)) {
		spec := cat[name].Spec()
		if shape := spec.Verify.Family + " " + spec.Body.Format; !seen[shape] {
			seen[shape] = true
			out = append(out, cat[name])
		}
	}
	return out
}

// allocated is how many bytes f allocates. Nothing else may run.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestHostileRequestsAreBounded checks that an unauthenticated request cannot cause unlimited cost:
// 16 KiB of brackets become a gigabyte of JSON if they are indented in every way. The size of the
// request limits what a diagnosis and an inspection allocate, for every way of verifying.
//
// The test is not parallel because it measures the allocations of the whole process. It does not
// run under the race detector (./scripts/test then passes -short), because pools drop their content
// there and the figures mean nothing.
func TestHostileRequestsAreBounded(t *testing.T) { //nolint:paralleltest // see above
	if testing.Short() {
		t.Skip("the race detector, which ./scripts/test runs with -short, changes what is allocated; without -short this is measured")
	}
	secrets := []providers.Secret{{Name: "a", Value: []byte("whsec_c2VjcmV0")}, {Name: "b", Value: []byte("secret-b")}}
	requests := hostiles(t)
	for _, p := range shapes(t) {
		for i := range requests {
			req := requests[i].request(p)
			size := uint64(len(req.Body))
			if got, most := allocated(func() { p.Diagnose(req, secrets, providers.DiagnoseOptions{}) }), 8<<20+48*size; got > most {
				t.Errorf("%s: diagnosing %s of %d bytes allocates %d bytes, at most %d are allowed", p.Name(), requests[i].name, size, got, most)
			}
			if got, most := allocated(func() { p.Inspect(req) }), 1<<20+40*size; got > most {
				t.Errorf("%s: inspecting %s of %d bytes allocates %d bytes, at most %d are allowed", p.Name(), requests[i].name, size, got, most)
			}
		}
	}
}
