package mail_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http/httptest"
	netmail "net/mail"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/effecttest"
	"github.com/oncegate/oncegate/jobs/effect/mail"
)

func message(tb testing.TB) *mail.Message {
	tb.Helper()
	m, err := mail.NewMessage(mail.MessageConfig{
		From: "Shop <shop@example.com>", Subject: "Order {{.Body.id}}", Text: "Total: {{.Body.total}} €\n.\nto {{.To}}",
		HTML: "<p>{{.Body.id}}</p>",
	})
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

func mailCall(tb testing.TB, to string) *effect.Call {
	tb.Helper()
	call := effecttest.Call(1)
	call.Event.Body = []byte(`{"id":"<7>","total":12}`)
	var err error
	if call.Rendered, err = message(tb).Render(call, to); err != nil {
		tb.Fatal(err)
	}
	return call
}

// certificate is one for 127.0.0.1, and the client's trust in it.
func certificate(tb testing.TB) (server, client *tls.Config) {
	tb.Helper()
	s := httptest.NewTLSServer(nil)
	tb.Cleanup(s.Close)
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	return &tls.Config{Certificates: s.TLS.Certificates, MinVersion: tls.VersionTLS12}, &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

func newMail(tb testing.TB, cfg mail.Config) *mail.Sender {
	tb.Helper()
	m, err := mail.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// mailTo is a sender of mail as the suite asks for it, and its route's message.
func mailTo(tb testing.TB, to effecttest.MailTo) (effect.Sender, func(*effect.Call, string) ([]byte, error)) {
	tb.Helper()
	cfg := mail.Config{Server: to.Server, TLS: to.TLS, Resolver: to.Resolver}
	if to.Plain {
		cfg.StartTLS = mail.StartTLSOff
	} else {
		cfg.Username, cfg.Password = "shop", effecttest.Password
	}
	m, err := mail.NewMessage(mail.MessageConfig{
		From: "shop@example.com", Subject: "Order {{.Event.EventID}}", Text: "Thank you, {{.To}}", HTML: "<p>{{.Event.Type}}</p>",
	})
	if err != nil {
		tb.Fatal(err)
	}
	return newMail(tb, cfg), m.Render
}

func TestMailConforms(t *testing.T) { //nolint:paralleltest // Run makes it parallel
	effecttest.Run(t, effecttest.Mail(mailTo))
}

func TestMailIsSecured(t *testing.T) {
	t.Parallel()
	serverTLS, clientTLS := certificate(t)
	for name, c := range map[string]struct {
		tls     *tls.Config // the server's
		secure  bool
		scheme  string
		trust   *tls.Config
		outcome effect.Outcome
		reason  string
	}{
		"STARTTLS":                    {serverTLS, false, "smtp", clientTLS, effect.Done, ""},
		"TLS from the first byte":     {serverTLS, true, "smtps", clientTLS, effect.Done, ""},
		"STARTTLS is not offered":     {nil, false, "smtp", clientTLS, effect.Retry, reasons.TLS},
		"a certificate of a stranger": {serverTLS, false, "smtp", nil, effect.Retry, reasons.TLS},
		"the same, from the start":    {serverTLS, true, "smtps", nil, effect.Retry, reasons.TLS},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := effecttest.NewMailServer(t, nil, c.tls, c.secure)
			m := newMail(t, mail.Config{Server: c.scheme + "://" + server.Address, Username: "shop", Password: "hunter2", TLS: c.trust})
			got := m.Send(t.Context(), mailCall(t, "ann@example.com"))
			if got.Outcome != c.outcome || got.Reason != c.reason {
				t.Errorf("%+v, want %s, %s", got, c.outcome, c.reason)
			}
			said := strings.Join(server.Said(), "\n")
			if c.outcome == effect.Done && !strings.Contains(said, "AUTH PLAIN") {
				t.Errorf("it did not log in: %s", said)
			}
			if c.outcome != effect.Done && (strings.Contains(said, "AUTH") || strings.Contains(said, "MAIL")) {
				t.Errorf("it spoke in the clear: %s", said)
			}
		})
	}
	t.Run("a login that is refused is tried again", func(t *testing.T) {
		t.Parallel()
		server := effecttest.NewMailServer(t, effecttest.MailScript{"AUTH": "535 not hunter2"}, serverTLS, true)
		m := newMail(t, mail.Config{Server: "smtps://" + server.Address, Username: "shop", Password: "hunter2", TLS: clientTLS})
		got := m.Send(t.Context(), mailCall(t, "ann@example.com"))
		if got.Outcome != effect.Retry || strings.Contains(fmt.Sprintf("%+v", got), "hunter2") {
			t.Errorf("%+v", got)
		}
	})
	t.Run("refused addresses", func(t *testing.T) {
		t.Parallel()
		m := newMail(t, mail.Config{Server: "smtp://169.254.169.254:25", StartTLS: mail.StartTLSOff})
		if got := m.Send(t.Context(), mailCall(t, "ann@example.com")); got.Outcome != effect.Retry || got.Reason != reasons.Address {
			t.Errorf("%+v", got)
		}
	})
}

// The same effect is the same message, to the byte; another effect is not.
func TestMessages(t *testing.T) {
	t.Parallel()
	call := mailCall(t, "Ann <ann@example.com>")
	if again := mailCall(t, "Ann <ann@example.com>"); string(again.Rendered) != string(call.Rendered) {
		t.Errorf("rendered twice:\n%s\nand\n%s", call.Rendered, again.Rendered)
	}
	other := effecttest.Call(1)
	other.Key, other.Event.Body = "key-2", call.Event.Body
	second, err := message(t).Render(other, "Ann <ann@example.com>")
	if err != nil {
		t.Fatal(err)
	}
	read, err := netmail.ReadMessage(strings.NewReader(string(call.Rendered)))
	if err != nil {
		t.Fatal(err)
	}
	id := read.Header.Get("Message-Id")
	if strings.Contains(string(second), id) || !strings.HasSuffix(id, "@example.com>") {
		t.Errorf("Message-ID %s", id)
	}
	if got := read.Header.Get("Date"); got != "Tue, 14 Nov 2023 22:13:20 +0000" {
		t.Errorf("Date %s, want the event's", got)
	}
	subject, _ := new(mime.WordDecoder).DecodeHeader(read.Header.Get("Subject"))
	if subject != "Order <7>" {
		t.Errorf("Subject %s", subject)
	}
	_, params, err := mime.ParseMediaType(read.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	var parts []string
	for reader := multipart.NewReader(read.Body, params["boundary"]); ; {
		part, err := reader.NextPart()
		if err != nil {
			break
		}
		text, _ := io.ReadAll(part)
		parts = append(parts, strings.ReplaceAll(string(text), "\r\n", "\n"))
	}
	if len(parts) != 2 || parts[0] != "Total: 12 €\n.\nto ann@example.com" || parts[1] != "<p>&lt;7&gt;</p>" {
		t.Errorf("%d parts: %q", len(parts), parts)
	}
	server := effecttest.NewMailServer(t, nil, nil, false)
	m := newMail(t, mail.Config{Server: "smtp://" + server.Address, StartTLS: mail.StartTLSOff})
	if got := m.Send(t.Context(), call); got.Outcome != effect.Done || string(got.Stored) != id {
		t.Errorf("%+v", got)
	}
	if got := server.Got(); len(got) != 1 || strings.TrimRight(got[0].Data, "\r\n") != strings.TrimRight(string(call.Rendered), "\r\n") || !strings.Contains(got[0].To, "<ann@example.com>") {
		t.Errorf("%+v", got)
	}
}

func TestMessagesThatCannotBeMade(t *testing.T) {
	t.Parallel()
	m, err := mail.NewMessage(mail.MessageConfig{From: "shop@example.com", Subject: "s", Text: `{{.Body.lost}} {{index .Body.list 9}}`})
	if err != nil {
		t.Fatal(err)
	}
	for body, want := range map[string]string{`{"name":"canary"}`: "<.Body.lost>", `{"lost":1,"list":["canary"]}`: "<index .Body.list 9>", `canary`: "<.Body.lost>"} {
		call := effecttest.Call(1)
		call.Event.Body = []byte(body)
		if _, err := m.Render(call, "ann@example.com"); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
	for _, to := range []string{"", "nobody", "a@b.example\r\nBcc: c@d.example", "a@b.example, c@d.example"} {
		if _, err := message(t).Render(mailCall(t, "ann@example.com"), to); err == nil {
			t.Errorf("%q is taken", to)
		}
	}
	for _, cfg := range []mail.MessageConfig{
		{From: "x", Subject: "s", Text: "t"}, {From: "a@b.example", Text: "t"}, {From: "a@b.example", Subject: "s"},
		{From: "a@b.example", Subject: "{{.Evnt.ID}}", Text: "t"}, {From: "a@b.example", Subject: "s", Text: "{{.Event.Id}}"},
		{From: "a@b.example", Subject: "s", Text: "{{range .Body.list}}{{$.Boddy}}{{end}}"}, {From: "a@b.example", Subject: "s", HTML: "{{if .Total}}x{{end}}"},
		{From: "a@b.example", Subject: "s", Text: "{{len (index .Lines 0)}}"}, {From: "a@b.example", Subject: "s", Text: "{{with .Body}}x{{else}}{{.To.Name}}{{end}}"},
		{From: "a@b.example", Subject: "{{", Text: "t"}, {From: "a@b.example", Subject: "s", HTML: "{{nofunction}}"},
	} {
		if _, err := mail.NewMessage(cfg); err == nil {
			t.Errorf("%+v is taken", cfg)
		}
	}
	for _, text := range []string{
		"{{.Event.Type}} {{.Event.ReceivedAt.Year}} {{.Body.a.b}} {{.To}} {{.}}", "{{range .Body.list}}{{.name}} {{$.To}}{{end}}",
		"{{with $x := .Body.x}}{{.anything}} {{$x.other}}{{end}}", `{{define "line"}}{{.what}}{{end}}{{template "line" .Body}}`,
	} {
		if _, err := mail.NewMessage(mail.MessageConfig{From: "a@b.example", Subject: "s", Text: text, HTML: text}); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, cfg := range []mail.Config{
		{}, {Server: "mail.example:25"}, {Server: "smtp://u:p@mail.example"}, {Server: "smtp://mail.example", StartTLS: "maybe"},
		{Server: "smtp://mail.example", Username: "u"}, {Server: "smtp://mail.example", StartTLS: mail.StartTLSOff, Username: "u", Password: "p"},
	} {
		if _, err := mail.New(cfg); err == nil {
			t.Errorf("%+v is taken", cfg)
		}
	}
}

// The last reply of a server has the id under which it has the message. It is kept, without what a terminal would obey.
func TestMailKeepsTheLastReply(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{
		"250 2.0.0 Ok: queued as 4XyZ": "250 2.0.0 Ok: queued as 4XyZ", "250-taken\r\n250 id=1tX-0003": "250 taken\nid=1tX-0003", "250 \x00\xff": "250 ��",
	} {
		s := effecttest.NewMailServer(t, effecttest.MailScript{"dot": said}, nil, false)
		sender := newMail(t, mail.Config{Server: "smtp://" + s.Address, StartTLS: mail.StartTLSOff})
		call := mailCall(t, "ann@example.com")
		r := sender.Send(t.Context(), call)
		if id := string(mail.MessageID(call.Rendered)); r.Outcome != effect.Done || r.Excerpt != want || string(r.Stored) != id {
			t.Errorf("%q gave %+v, want done with %q and the result %s", said, r, want, id)
		}
	}
}
