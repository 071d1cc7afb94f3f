package providers_test

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/providers"
)

const multipartSpec = `
docs: https://example.com/docs
verify:
  family: hmac
  signature: { headers: [X-Sig], schemes: [{ algorithm: hmac-sha256, encoding: hex }] }
  signed: [body]
body: { format: any, multipart: true }
identity: { candidates: [{ form: id }] }
type: [{ form: type }]
`

func sendMultipart(tb testing.TB, p *providers.Provider, media string, body []byte) providers.Item {
	tb.Helper()
	secret := providers.Secret{Name: "s", Value: []byte("a secret of ours")}
	req := &providers.Request{Method: http.MethodPost, Header: http.Header{"Content-Type": {media}}, Body: body, ReceivedAt: noon}
	if err := p.Sign(req, secret, ""); err != nil {
		tb.Fatal(err)
	}
	d, err := p.Verify(req, []providers.Secret{secret})
	if err != nil {
		tb.Fatal(err)
	}
	if len(d.Items) != 1 || d.Items[0].Length != len(body) {
		tb.Fatalf("%+v", d.Items)
	}
	return d.Items[0]
}

// The texts of a multipart body are its fields; its files are not, and a body that
// cannot be read is recorded as unusable.
func TestMultipart(t *testing.T) {
	t.Parallel()
	p := custom(t, multipartSpec)
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	file, err := w.CreateFormFile("id", "id.txt")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(file, "the id of a file")
	_ = w.WriteField("id", "evt_1")
	_ = w.WriteField("type", "mail")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	media := w.FormDataContentType()
	if item := sendMultipart(t, p, media, body.Bytes()); item.EventID != "evt_1" || item.Type != "mail" || item.Unusable != "" {
		t.Errorf("%+v", item)
	}
	for name, test := range map[string]struct{ media, body, want string }{
		"cut":         {media, body.String()[:body.Len()-20], "not multipart"},
		"no boundary": {"multipart/form-data", body.String(), "without a boundary"},
		"another":     {"multipart/form-data; boundary=other", body.String(), "not multipart"},
		"empty":       {media, "", "not multipart"},
		"twice":       {"multipart/form-data; boundary=b", strings.Repeat("--b\r\nContent-Disposition: form-data; name=\"id\"\r\n\r\nx\r\n", 2) + "--b--\r\n", "present twice"},
		"many":        {"multipart/form-data; boundary=b", strings.Repeat("--b\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\nx\r\n", 1001) + "--b--\r\n", "too many fields"},
	} {
		if item := sendMultipart(t, p, test.media, []byte(test.body)); !strings.Contains(item.Unusable, test.want) || item.EventID != "" {
			t.Errorf("%s: %+v, want %s", name, item, test.want)
		}
	}
}

// The whole of a multipart body is its identity where it has no id: its texts and
// its files, but not the boundary, which is another in each try.
func TestMultipartDigest(t *testing.T) {
	t.Parallel()
	p := custom(t, multipartSpec)
	digest := func(boundary, text, name, content string) string {
		var body bytes.Buffer
		w := multipart.NewWriter(&body)
		_ = w.SetBoundary(boundary)
		_ = w.WriteField("text", text)
		file, _ := w.CreateFormFile("attachment", name)
		_, _ = io.WriteString(file, content)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		item := sendMultipart(t, p, w.FormDataContentType(), body.Bytes())
		if !isDigest(item) {
			t.Fatalf("%+v", item)
		}
		return item.EventID
	}
	first := digest("one", "hi", "a.txt", "content")
	if digest("two", "hi", "a.txt", "content") != first {
		t.Error("the id depends on the boundary")
	}
	for name, other := range map[string]string{
		"text": digest("one", "ho", "a.txt", "content"), "file name": digest("one", "hi", "b.txt", "content"), "file": digest("one", "hi", "a.txt", "Content"),
	} {
		if other == first {
			t.Errorf("another %s has the same id", name)
		}
	}
}

// FuzzMultipart checks that parsing any body as multipart terminates, and that a body that the
// standard library wrote is read correctly.
func FuzzMultipart(f *testing.F) {
	p := custom(f, multipartSpec)
	f.Add("b", "evt_1", []byte("--b\r\n\r\n--b--"))
	f.Add("xYzZY", "a\r\nb", []byte("--xYzZY\nContent-Disposition: form-data; name=\"id\"\n\nx\n--xYzZY--"))
	f.Fuzz(func(t *testing.T, boundary, id string, body []byte) {
		sendMultipart(t, p, "multipart/form-data; boundary="+url.QueryEscape(boundary), body)
		var written bytes.Buffer
		w := multipart.NewWriter(&written)
		if w.SetBoundary(boundary) != nil || w.WriteField("id", id) != nil || w.Close() != nil || strings.Contains(id, boundary) || boundary != url.QueryEscape(boundary) {
			return
		}
		item := sendMultipart(t, p, w.FormDataContentType(), written.Bytes())
		if item.Unusable == "" && item.EventID != id {
			t.Errorf("%q is read as %q", id, item.EventID)
		}
	})
}
