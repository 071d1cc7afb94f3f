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

	// Subject and Text are Go text templates, HTML is a Go HTML template. They see
	// .Event, .Body (the payload, if it is JSON) and .To. Another field is refused
	// here, a member that the body does not have when the message is made.
	Subject, Text, HTML string
}

// maxMessage bounds a rendered message, in bytes.
const maxMessage = 1 << 20

// Message makes mail of events: the same bytes for the same effect.
type Message struct {
	from    *netmail.Address
	subject *template.Template
	text    *template.Template
	html    *html.Template
}

// NewMessage makes a Message, or reports everything that is wrong with cfg.
func NewMessage(cfg MessageConfig) (*Message, error) {
	m := &Message{}
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
		for _, err := range checkFields(tree()) {
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
	return m, errors.Join(errs...)
}

// view is what templates see.
type view struct {
	Event effect.Event
	Body  any
	To    string
}

// Render makes the message to one recipient. Message-ID, Date and boundaries
// come from the effect's key and the event, so that a person who finds two can
// tell that they are one. Its error says which template and expression, never
// content.
func (m *Message) Render(call *effect.Call, to string) ([]byte, error) {
	recipient, err := netmail.ParseAddress(to)
	if err != nil || strings.ContainsAny(to, "\r\n") {
		return nil, errors.New("to: the recipient is not an address")
	}
	v := view{Event: call.Event, Body: call.Payload(), To: recipient.Address}
	subject, err := execute(m.subject, v)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(call.Key))
	name := hex.EncodeToString(sum[:16])
	domain := m.from.Address[strings.LastIndexByte(m.from.Address, '@')+1:]
	msg := mail.NewMsg(mail.WithBoundary("oncegate-"+name), mail.WithNoDefaultUserAgent())
	msg.FromMailAddress(m.from)
	msg.ToMailAddress(recipient)
	msg.Subject(strings.Join(strings.Fields(subject), " "))
	msg.SetMessageIDWithValue(name + "@" + domain)
	msg.SetDateWithValue(call.Event.ReceivedAt.UTC())
	msg.SetGenHeader("Auto-Submitted", "auto-generated")
	if m.text != nil {
		body, err := execute(m.text, v)
		if err != nil {
			return nil, err
		}
		msg.SetBodyString(mail.TypeTextPlain, body)
	}
	if m.html != nil {
		body, err := execute(m.html, v)
		if err != nil {
			return nil, err
		}
		if m.text != nil {
			msg.AddAlternativeString(mail.TypeTextHTML, body)
		} else {
			msg.SetBodyString(mail.TypeTextHTML, body)
		}
	}
	var out bytes.Buffer
	if _, err := msg.WriteTo(&out); err != nil {
		return nil, errors.New("the message cannot be written")
	}
	return out.Bytes(), nil
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
	// What a template says ends with what went wrong, which may quote a value; what
	// stands before it is the template's own text.
	said := err.Error()
	if i := strings.Index(said, ">: "); i >= 0 && strings.HasPrefix(said, "template: ") {
		return "", errors.New(said[:i+1])
	}
	return "", fmt.Errorf("template: %s: it cannot be executed", t.Name())
}

// limited refuses to write more than a message may have.
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
