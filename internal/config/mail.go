package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/oncegate/oncegate/internal/expression"
	"github.com/oncegate/oncegate/internal/yamltree"
	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/mail"
)

// mail validates the configuration of a mail target with package mail.
func (r *reader) mail(t *Target) {
	if len(t.Password) > 1 {
		t.node.Below("password").Fail("a mail server takes one")
	}
	_, server := mail.New(t.MailConfig())
	_, from := mail.NewMessage(mail.MessageConfig{From: t.From, Subject: "x", Text: "x"})
	failLines(t.node.Below(""), errors.Join(server, from))
	if t.DKIM != nil {
		_, err := t.DKIM.Signer()
		failLines(t.node.Below(""), err)
	}
}

// DKIM configures how the messages of a target are signed.
type DKIM struct {
	Domain, Selector string
	// Key is the private key in PEM.
	Key []Reference
}

// Signer returns the signer, or nil if d is nil.
func (d *DKIM) Signer() (*mail.DKIM, error) {
	if d == nil {
		return nil, nil //nolint:nilnil // nothing is signed
	}
	cfg := mail.DKIMConfig{Domain: d.Domain, Selector: d.Selector}
	if keys := values(d.Key); len(keys) > 0 {
		cfg.Key = keys[0].Value
	}
	return mail.NewDKIM(cfg)
}

func (r *reader) dkim(n *yamltree.Node) *DKIM {
	d := &DKIM{}
	r.fields(n, d.keys())
	for _, k := range d.keys() {
		if n.IsMapping() && n.Lacks(k.Name) {
			n.FailKey("%s is missing", k.Name)
		}
	}
	if len(d.Key) > 1 {
		n.Below("key").Fail("messages are signed with one key; publish the next one under another selector")
	}
	return d
}

func (d *DKIM) keys() []Key {
	return []Key{
		value("domain", &d.Domain, words(hostName), "required", "The domain that answers for the messages, such as `example.com`."),
		value("selector", &d.Selector, words(hostName), "required", "The name of the key: the public key is the TXT record of `<selector>._domainkey.<domain>`."),
		secrets("key", &d.Key, "required", "A reference to the private key in PEM: RSA of 2048 bits or more, or Ed25519."),
	}
}

// MessageConfig returns the configuration of the route's message for package mail. attachments
// computes the files of an event and may be nil.
func (r *Route) MessageConfig(attachments func(*effect.Call) (any, error)) (mail.MessageConfig, error) {
	m := r.Mail
	signer, err := r.Target.DKIM.Signer()
	if m.Attachments == nil {
		attachments = nil
	}
	return mail.MessageConfig{
		From: r.Target.From, Subject: m.Subject, Text: m.Text, HTML: m.HTML, ReplyTo: m.ReplyTo, ListUnsubscribe: m.ListUnsubscribe, OneClick: m.OneClick,
		Attachments: attachments, DKIM: signer, Fetched: r.Fetch != nil,
	}, err
}

// MailConfig returns the configuration of the target for package mail.
func (t *Target) MailConfig() mail.Config {
	cfg := mail.Config{
		Server: t.SMTP, StartTLS: mail.StartTLS(t.StartTLS), Username: t.Username, Hello: t.Hello, Allow: t.Allow,
	}
	if keys := values(t.Password); len(keys) > 0 {
		cfg.Password = string(keys[0].Value)
	}
	return cfg
}

// routeMail reads the section mail of a route.
func (r *reader) routeMail(n *yamltree.Node) *Mail {
	m := &Mail{}
	r.fields(n, m.keys())
	if (n.IsMapping() || n.IsEmpty()) && n.Lacks("to") {
		n.FailKey("to is missing")
	}
	return m
}

func (m *Mail) keys() []Key {
	fromFiles := m.Template != ""
	return []Key{
		programAfterFetch("to", &m.To, expression.Texts, "required", "An expression for the recipient. A list makes one effect for each recipient."),
		value("template", &m.Template, words(checkedName), "none", "The name of the files in the target's directory `templates`."),
		value("subject", &m.Subject, words(verbatim), "none", "The template of the subject.").hidden(fromFiles),
		value("text", &m.Text, words(verbatim), "none", "The template of the plain text.").hidden(fromFiles),
		value("html", &m.HTML, words(verbatim), "none", "The template of the HTML.").hidden(fromFiles),
		value("reply_to", &m.ReplyTo, words(verbatim), "none", "A template for the address that answers go to."),
		list("list_unsubscribe", &m.ListUnsubscribe, words(verbatim), "none", "Templates for the addresses at which the recipient unsubscribes, `https:` and `mailto:`."),
		value("one_click", &m.OneClick, boolean, "`false`", "`true` promises that a POST to the `https:` address of `list_unsubscribe` unsubscribes without asking anything (RFC 8058)."),
		programAfterFetch("attachments", &m.Attachments, expression.Value, "none", "An expression that returns a list of objects with `name`, `type` and `content` in base64: at most 20, of 5 MiB together."),
	}
}

// routeTemplates reads the files that a route's template names, and validates the message. Call it
// after the route's target is known.
func (r *reader) routeTemplates(route *Route, n *yamltree.Node) {
	m := route.Mail
	if template := n.Member("template"); m.Template != "" {
		if err := r.templateFiles(route.Target, m); err != nil {
			template.FailKey("%v", err)
			return
		}
	} else if !template.Sound() || !n.IsMapping() {
		return
	}
	_, err := mail.NewMessage(mail.MessageConfig{
		From: "a@b.example", Subject: m.Subject, Text: m.Text, HTML: m.HTML, ReplyTo: m.ReplyTo, ListUnsubscribe: m.ListUnsubscribe, OneClick: m.OneClick,
		Fetched: route.Fetch != nil,
	})
	failLines(n.Below(""), err)
}

// longestTemplate is the maximum size of a template file, in bytes.
const longestTemplate = 1 << 20

// templateFiles reads <name>.subject.txt, <name>.txt and <name>.html from the target's directory.
// Neither a name nor a link can refer to a file outside it.
func (r *reader) templateFiles(t *Target, m *Mail) error {
	switch {
	case t.Templates == "":
		return fmt.Errorf("target %s has no templates: name the directory there", t.Name)
	case m.Subject != "" || m.Text != "" || m.HTML != "":
		return errors.New("either template, or subject, text and html")
	}
	directory := t.Templates
	if !filepath.IsAbs(directory) {
		directory = filepath.Join(filepath.Dir(r.report.File), directory)
	}
	root, err := os.OpenRoot(directory)
	if err != nil {
		return fmt.Errorf("opening the templates of target %s: %w", t.Name, err)
	}
	defer root.Close()
	for name, into := range map[string]*string{m.Template + ".subject.txt": &m.Subject, m.Template + ".txt": &m.Text, m.Template + ".html": &m.HTML} {
		if *into, err = readTemplate(root, name); err != nil {
			return err
		}
	}
	m.Subject = strings.TrimSpace(m.Subject)
	switch {
	case m.Subject == "":
		return fmt.Errorf("%s.subject.txt is missing or empty in %s", m.Template, t.Templates)
	case m.Text == "" && m.HTML == "":
		return fmt.Errorf("neither %s.txt nor %s.html is in %s", m.Template, m.Template, t.Templates)
	}
	return nil
}

// readTemplate returns the content of a file, or "" if it does not exist.
func readTemplate(root *os.Root, name string) (string, error) {
	file, err := root.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading a template: %w", err)
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, longestTemplate+1))
	if err != nil {
		return "", fmt.Errorf("reading a template: %w", err)
	}
	if len(content) > longestTemplate {
		return "", fmt.Errorf("%s is longer than 1 MiB", name)
	}
	return string(content), nil
}
