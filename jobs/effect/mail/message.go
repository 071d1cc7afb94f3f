package mail

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	html "html/template"
	"io"
	netmail "net/mail"
	"regexp"
	"strings"
	"text/template"
	"text/template/parse"

	"github.com/wneessen/go-mail"

	"github.com/oncegate/oncegate/jobs/effect"
)

// MessageConfig configures a [Message]. From, Subject and Text or HTML are
// required.
type MessageConfig struct {
	// From is the sender's address, with or without a name.
	From string

	// Subject and Text are Go text templates, HTML is a Go HTML template. They see .Event, .Body (the payload, if it
	// is JSON) and .To. [NewMessage] refuses any other field. A member that the body lacks makes [Message.Render]
	// fail.
	Subject, Text, HTML string

	// Fetched lets the templates read .Fetched, the answer of the route's fetch.
	Fetched bool

	// ReplyTo is a text template for the address that replies go to. Empty is none.
	ReplyTo string

	// ListUnsubscribe are text templates for the addresses, https: and mailto:, at which the recipient unsubscribes.
	// OneClick says that a POST to the https: address unsubscribes without further questions (RFC 8058).
	ListUnsubscribe []string
	OneClick        bool

	// Attachments returns the files to attach: a list of objects with name, type and content, in base64. nil is none.
	// Its error must not quote the event.
	Attachments func(call *effect.Call) (any, error)

	// DKIM signs the message. nil is no signature.
	DKIM *DKIM
}

// maxMessage bounds the output of one template, in bytes.
const maxMessage = 1 << 20

// Message makes mail from events. The same effect always makes the same bytes, except for the time in a signature
// ([Unsigned]).
type Message struct {
	cfg         MessageConfig
	replyTo     *template.Template
	unsubscribe []*template.Template

	from    *netmail.Address
	subject *template.Template
	text    *template.Template
	html    *html.Template
}

// NewMessage makes a Message, or reports everything that is wrong with cfg.
func NewMessage(cfg MessageConfig) (*Message, error) {
	m := &Message{cfg: cfg}
	var errs []error
	var err error
	if m.from, err = netmail.ParseAddress(cfg.From); err != nil {
		errs = append(errs, errors.New("from is not an address"))
	}
	if strings.TrimSpace(cfg.Subject) == "" {
		errs = append(errs, errors.New("subject is missing"))
	}
	if cfg.Text == "" && cfg.HTML == "" {
		errs = append(errs, errors.New("text or html is missing"))
	}
	read := func(name string, tree func() *parse.Tree, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
			return
		}
		for _, err := range checkFields(tree(), cfg.Fetched) {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	m.subject, err = template.New("subject").Option("missingkey=error").Parse(cfg.Subject)
	read("subject", func() *parse.Tree { return m.subject.Tree }, err)
	if cfg.Text != "" {
		m.text, err = template.New("text").Option("missingkey=error").Parse(cfg.Text)
		read("text", func() *parse.Tree { return m.text.Tree }, err)
	}
	if cfg.HTML != "" {
		m.html, err = html.New("html").Option("missingkey=error").Parse(cfg.HTML)
		read("html", func() *parse.Tree { return m.html.Tree }, err)
	}
	text := func(name, source string) *template.Template {
		t, err := template.New(name).Option("missingkey=error").Parse(source)
		read(name, func() *parse.Tree { return t.Tree }, err)
		return t
	}
	if cfg.ReplyTo != "" {
		m.replyTo = text("reply_to", cfg.ReplyTo)
	}
	secure := false
	for _, source := range cfg.ListUnsubscribe {
		m.unsubscribe = append(m.unsubscribe, text("list_unsubscribe", source))
		secure = secure || !strings.HasPrefix(source, "mailto:")
	}
	if cfg.OneClick && !secure {
		errs = append(errs, errors.New("one_click needs an https: address in list_unsubscribe"))
	}
	return m, errors.Join(errs...)
}

// view is the data that templates see.
type view struct {
	Event   effect.Event
	Body    any
	Fetched any
	To      string
}

// Render makes the message for one recipient. Message-ID and boundaries come from the effect's key and the Date from
// the event, so that a person who finds the message twice can tell that it is the same one. Its error names the
// template and the expression, never content.
func (m *Message) Render(call *effect.Call, to string) ([]byte, error) {
	recipient, err := netmail.ParseAddress(to)
	if err != nil || strings.ContainsAny(to, "\r\n") {
		return nil, errors.New("to: the recipient is not an address")
	}
	v := view{Event: call.Event, Body: call.Payload(), Fetched: call.FetchedPayload(), To: recipient.Address}
	subject, err := execute(m.subject, v)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(call.Key))
	name := hex.EncodeToString(sum[:16])
	domain := m.from.Address[strings.LastIndexByte(m.from.Address, '@')+1:]
	msg := mail.NewMsg(mail.WithNoDefaultUserAgent())
	msg.FromMailAddress(m.from)
	msg.ToMailAddress(recipient)
	msg.Subject(strings.Join(strings.Fields(subject), " "))
	msg.SetMessageIDWithValue(name + "@" + domain)
	msg.SetDateWithValue(call.Event.ReceivedAt.UTC())
	msg.SetGenHeader("Auto-Submitted", "auto-generated")
	if err := m.headers(msg, v); err != nil {
		return nil, err
	}
	if err := m.bodies(msg, v); err != nil {
		return nil, err
	}
	if err := m.attach(msg, call); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if _, err := msg.WriteTo(&out); err != nil {
		return nil, errors.New("the message cannot be written")
	}
	written := nameBoundaries(out.Bytes(), name)
	if m.cfg.DKIM == nil {
		return written, nil
	}
	return m.cfg.DKIM.sign(written)
}

// headers adds the optional headers.
func (m *Message) headers(msg *mail.Msg, v view) error {
	if m.replyTo != nil {
		text, err := execute(m.replyTo, v)
		if err != nil {
			return err
		}
		address, err := netmail.ParseAddress(text)
		if err != nil || strings.ContainsAny(text, "\r\n") {
			return errors.New("reply_to: it is not an address")
		}
		msg.SetGenHeader("Reply-To", address.String())
	}
	if len(m.unsubscribe) == 0 {
		return nil
	}
	addresses := make([]string, len(m.unsubscribe))
	for i, t := range m.unsubscribe {
		var err error
		if addresses[i], err = execute(t, v); err != nil {
			return err
		}
	}
	value, secure, err := unsubscribeHeader(addresses)
	if err != nil {
		return err
	}
	msg.SetGenHeader("List-Unsubscribe", value)
	if m.cfg.OneClick {
		if !secure {
			return errors.New("list_unsubscribe: one_click needs an https: address")
		}
		msg.SetGenHeader("List-Unsubscribe-Post", "List-Unsubscribe=One-Click")
	}
	return nil
}

// bodies adds the text, the HTML or both.
func (m *Message) bodies(msg *mail.Msg, v view) error {
	if m.text != nil {
		body, err := execute(m.text, v)
		if err != nil {
			return err
		}
		msg.SetBodyString(mail.TypeTextPlain, body)
	}
	if m.html == nil {
		return nil
	}
	body, err := execute(m.html, v)
	if err != nil {
		return err
	}
	if m.text != nil {
		msg.AddAlternativeString(mail.TypeTextHTML, body)
	} else {
		msg.SetBodyString(mail.TypeTextHTML, body)
	}
	return nil
}

// attach adds the event's attachments.
func (m *Message) attach(msg *mail.Msg, call *effect.Call) error {
	if m.cfg.Attachments == nil {
		return nil
	}
	value, err := m.cfg.Attachments(call)
	if err != nil {
		return fmt.Errorf("attachments: %w", err)
	}
	files, err := readAttachments(value)
	if err != nil {
		return fmt.Errorf("attachments: %w", err)
	}
	for _, file := range files {
		if err := msg.AttachReader(file.name, bytes.NewReader(file.content), mail.WithFileContentType(mail.ContentType(file.mediaType))); err != nil {
			return errors.New("attachments: one cannot be attached")
		}
	}
	return nil
}

var multipartField = regexp.MustCompile(`(?m)^Content-Type: multipart/[a-z]+;\r\n boundary=([0-9a-f]{60})\r$`)

// nameBoundaries replaces the boundaries of a message's parts with ones derived from its name. The library chooses
// random boundaries, or uses one for all parts, which would end an inner part where an outer one ends. A random
// boundary occurs nowhere else in the message.
func nameBoundaries(message []byte, name string) []byte {
	for i, found := range multipartField.FindAllSubmatch(message, -1) {
		message = bytes.ReplaceAll(message, bytes.Clone(found[1]), fmt.Appendf(nil, "oncegate-%s-%d", name, i))
	}
	return message
}

type executor interface {
	Execute(w io.Writer, data any) error
	Name() string
}

func execute(t executor, v view) (string, error) {
	var out strings.Builder
	err := t.Execute(&limited{w: &out, left: maxMessage}, v)
	if err == nil {
		return out.String(), nil
	}
	// A template's error ends with the cause, which may quote a value. The part before it is the template's own text.
	said := err.Error()
	if i := strings.Index(said, ">: "); i >= 0 && strings.HasPrefix(said, "template: ") {
		return "", errors.New(said[:i+1])
	}
	return "", fmt.Errorf("template: %s: it cannot be executed", t.Name())
}

// limited refuses to write more bytes than left.
type limited struct {
	w    io.Writer
	left int
}

// Write implements [io.Writer].
func (l *limited) Write(p []byte) (int, error) {
	if l.left -= len(p); l.left < 0 {
		return 0, errors.New("too long")
	}
	return l.w.Write(p)
}
