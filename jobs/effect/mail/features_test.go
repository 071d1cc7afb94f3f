package mail_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	netmail "net/mail"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/effecttest"
	"github.com/oncegate/oncegate/jobs/effect/mail"
)

// files are the attachments of a body, as an expression gives them.
func files(call *effect.Call) (any, error) {
	var body map[string]any
	if json.Unmarshal(call.Event.Body, &body) != nil || body["files"] == nil {
		return nil, errors.New("a member is missing")
	}
	return body["files"], nil
}

func TestUnsubscribe(t *testing.T) {
	t.Parallel()
	m, err := mail.NewMessage(mail.MessageConfig{
		From: "shop@example.com", Subject: "s", Text: "t", ReplyTo: "ticket+{{.Body.id}}@example.com", OneClick: true,
		ListUnsubscribe: []string{"https://shop.example/u?to={{.To | urlquery}}&n={{.Body.id}}", "mailto:stop@example.com?subject=stop"},
	})
	if err != nil {
		t.Fatal(err)
	}
	call := effecttest.Call(1)
	call.Event.Body = []byte(`{"id":7}`)
	rendered, err := m.Render(call, "Ann <ann+news@example.com>")
	if err != nil {
		t.Fatal(err)
	}
	read, err := netmail.ReadMessage(bytes.NewReader(rendered))
	if err != nil {
		t.Fatal(err)
	}
	// RFC 8058, 8.1, has both headers in this form.
	for name, want := range map[string]string{
		"List-Unsubscribe":      "<https://shop.example/u?to=ann%2Bnews%40example.com&n=7>, <mailto:stop@example.com?subject=stop>",
		"List-Unsubscribe-Post": "List-Unsubscribe=One-Click", "Reply-To": "<ticket+7@example.com>",
	} {
		if got := read.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for _, c := range []struct{ config, body, want string }{
		{"http://shop.example/u", `{}`, "list_unsubscribe:"}, {"https://shop.example/{{.Body.x}}", `{"x":"a b"}`, "list_unsubscribe:"},
		{"https://shop.example/{{.Body.x}}", `{"x":"a>\r\nBcc: eve@example.com"}`, "list_unsubscribe:"}, {"{{.Body.x}}", `{"x":"javascript:canary"}`, "list_unsubscribe:"},
		{"{{.Body.x}}", `{"x":"mailto:a@b.example"}`, "one_click needs an https: address"}, {"https://shop.example/{{.Body.lost}}", `{"x":"canary"}`, "<.Body.lost>"},
	} {
		m, err := mail.NewMessage(mail.MessageConfig{From: "shop@example.com", Subject: "s", Text: "t", ListUnsubscribe: []string{c.config}, OneClick: true})
		if err != nil {
			t.Fatal(err)
		}
		call := effecttest.Call(1)
		call.Event.Body = []byte(c.body)
		if _, err := m.Render(call, "ann@example.com"); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s of %s: %v, want %s", c.config, c.body, err, c.want)
		}
	}
	reply, err := mail.NewMessage(mail.MessageConfig{From: "shop@example.com", Subject: "s", Text: "t", ReplyTo: "{{.Body.to}}"})
	if err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{"nobody", "a@b.example, c@d.example", "a@b.example\r\nBcc: c@d.example"} {
		call := effecttest.Call(1)
		call.Event.Body, _ = json.Marshal(map[string]string{"to": to}) //nolint:errchkjson // a text
		if _, err := reply.Render(call, "ann@example.com"); err == nil || !strings.Contains(err.Error(), "reply_to:") || strings.Contains(err.Error(), "b.example") {
			t.Errorf("%q: %v", to, err)
		}
	}
	for _, cfg := range []mail.MessageConfig{
		{From: "a@b.example", Subject: "s", Text: "t", OneClick: true}, {From: "a@b.example", Subject: "s", Text: "t", OneClick: true, ListUnsubscribe: []string{"mailto:a@b.example"}},
		{From: "a@b.example", Subject: "s", Text: "t", ReplyTo: "{{.Boddy}}"}, {From: "a@b.example", Subject: "s", Text: "t", ListUnsubscribe: []string{"{{"}},
	} {
		if _, err := mail.NewMessage(cfg); err == nil {
			t.Errorf("%+v is taken", cfg)
		}
	}
}

// What a reader of mail finds: text, HTML and the files, each as it was given.
func TestAttachments(t *testing.T) {
	t.Parallel()
	m, err := mail.NewMessage(mail.MessageConfig{From: "shop@example.com", Subject: "s", Text: "the text", HTML: "<p>the HTML</p>", Attachments: files})
	if err != nil {
		t.Fatal(err)
	}
	content := bytes.Repeat([]byte{0, 1, 2, 250, '\r', '\n', '.', '\r', '\n'}, 500)
	call := effecttest.Call(1)
	call.Event.Body, err = json.Marshal(map[string]any{"files": []any{
		map[string]any{"name": "Rechnung für März.pdf", "type": "application/pdf", "content": base64.StdEncoding.EncodeToString(content)},
		map[string]any{"name": "note.txt", "type": "text/plain; charset=utf-8", "content": "aGVsbG8="},
	}})
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := m.Render(call, "ann@example.com")
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if again, err := m.Render(call, "ann@example.com"); err != nil || !bytes.Equal(again, rendered) {
			t.Fatalf("it is rendered otherwise the next time: %v", err)
		}
	}
	read, err := netmail.ReadMessage(bytes.NewReader(rendered))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	walk(t, read.Header.Get("Content-Type"), read.Header.Get("Content-Transfer-Encoding"), "", read.Body, got)
	want := map[string]string{"text/plain": "the text", "text/html": "<p>the HTML</p>", "Rechnung für März.pdf": string(content), "note.txt": "hello"}
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%s: %.60q, want %.60q", name, got[name], text)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d parts", len(got))
	}
}

func walk(t *testing.T, contentType, encoding, disposition string, in io.Reader, got map[string]string) {
	t.Helper()
	mediaType, parameters, err := mime.ParseMediaType(contentType)
	if err != nil {
		t.Fatalf("%q: %v", contentType, err)
	}
	if strings.HasPrefix(mediaType, "multipart/") {
		parts := multipart.NewReader(in, parameters["boundary"])
		for {
			part, err := parts.NextPart() // decodes quoted-printable
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			walk(t, part.Header.Get("Content-Type"), part.Header.Get("Content-Transfer-Encoding"), part.Header.Get("Content-Disposition"), part, got)
		}
	}
	if encoding == "base64" {
		in = base64.NewDecoder(base64.StdEncoding, in)
	}
	content, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	name := mediaType
	if disposition != "" {
		_, parameters, err := mime.ParseMediaType(disposition)
		if err != nil {
			t.Fatal(err)
		}
		if name, err = new(mime.WordDecoder).DecodeHeader(parameters["filename"]); err != nil {
			t.Fatal(err)
		}
	}
	got[name] = string(content)
}

func TestAttachmentsThatCannotBeMade(t *testing.T) {
	t.Parallel()
	m, err := mail.NewMessage(mail.MessageConfig{From: "shop@example.com", Subject: "s", Text: "t", Attachments: files})
	if err != nil {
		t.Fatal(err)
	}
	good := map[string]any{"name": "a.txt", "type": "text/plain", "content": "aGVsbG8="}
	with := func(name string, value any) any {
		out := map[string]any{"name": good["name"], "type": good["type"], "content": good["content"]}
		if value == nil {
			delete(out, name)
		} else {
			out[name] = value
		}
		return out
	}
	many := make([]any, mail.MaxAttachments+1)
	for i := range many {
		many[i] = good
	}
	big := base64.StdEncoding.EncodeToString(make([]byte, mail.MaxAttachmentBytes/2+1))
	for name, c := range map[string]struct {
		files any
		want  string
	}{
		"no list":          {"canary", "attachments: it is no list"},
		"too many":         {many, "attachments: there are 21, and 20 are the most"},
		"no object":        {[]any{good, "canary"}, "attachments: number 2: it is no object"},
		"no content":       {[]any{with("content", nil)}, "attachments: number 1: content is missing"},
		"no base64":        {[]any{good, with("content", "canary!")}, "attachments: number 2: content is not base64"},
		"a path":           {[]any{with("name", "../canary")}, "attachments: number 1: name is no file's name"},
		"a line":           {[]any{with("name", "a\r\nBcc: canary")}, "attachments: number 1: name is no file's name"},
		"no name":          {[]any{with("name", nil)}, "attachments: number 1: name is missing"},
		"a number":         {[]any{with("type", 7)}, "attachments: number 1: type is missing or no text"},
		"no type":          {[]any{with("type", "canary")}, "attachments: number 1: type is no media type"},
		"a message":        {[]any{with("type", "message/rfc822")}, "attachments: number 1: type is no media type"},
		"a line in a type": {[]any{with("type", "text/plain\r\nBcc: canary")}, "attachments: number 1: type is no media type"},
		"too long":         {[]any{with("content", big+big+big)}, "attachments: number 1: it is longer than 5 MiB"},
		"too long in all":  {[]any{with("content", big), with("content", big)}, "attachments: number 2: together they are longer than 5 MiB"},
		"nothing":          {nil, "attachments: a member is missing"},
	} {
		call := effecttest.Call(1)
		call.Event.Body, err = json.Marshal(map[string]any{"files": c.files})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Render(call, "ann@example.com"); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

func TestMessageID(t *testing.T) {
	t.Parallel()
	call := mailCall(t, "ann@example.com")
	if id := mail.MessageID(call.Rendered); len(id) < 40 || !bytes.Contains(call.Rendered, append([]byte("Message-ID: "), id...)) {
		t.Errorf("%q", id)
	}
	for _, other := range []string{"", `{"Message-ID":"<x@y>"}`, `["ann@example.com"]`, "From: a@b.example\r\nTo: c@d.example\r\nMessage-ID: <mine@b.example>\r\n\r\n", "Hello"} {
		if id := mail.MessageID([]byte(other)); id != nil {
			t.Errorf("%q: %q", other, id)
		}
	}
}
