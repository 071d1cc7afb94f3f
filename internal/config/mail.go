package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/oncegate/oncegate/expression"
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
	n.Fields(map[string]func(*yamltree.Node){
		"domain":   yamltree.Value(&d.Domain, hostName),
		"selector": yamltree.Value(&d.Selector, hostName),
		"key":      func(n *yamltree.Node) { d.Key = r.secrets(n, "") },
	})
	for _, name := range []string{"domain", "selector", "key"} {
		if n.IsMapping() && n.Lacks(name) {
			n.FailKey("%s is missing", name)
		}
	}
	if len(d.Key) > 1 {
		n.Below("key").Fail("messages are signed with one key; publish the next one under another selector")
	}
	return d
}

func (d *DKIM) append(to yaml.MapSlice) yaml.MapSlice {
	if d == nil {
		return to
	}
	return append(to, item("dkim", yaml.MapSlice{item("domain", d.Domain), item("selector", d.Selector), item("key", references(d.Key))}))
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
		Attachments: attachments, DKIM: signer,
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
	n.Fields(map[string]func(*yamltree.Node){
		"to":               r.program(&m.To, expression.Texts),
		"template":         yamltree.Value(&m.Template, checkedName),
		"subject":          yamltree.Text(&m.Subject),
		"text":             yamltree.Text(&m.Text),
		"html":             yamltree.Text(&m.HTML),
		"reply_to":         yamltree.Text(&m.ReplyTo),
		"list_unsubscribe": yamltree.List(&m.ListUnsubscribe, verbatim),
		"one_click":        yamltree.Bool(&m.OneClick),
		"attachments":      r.program(&m.Attachments, expression.Value),
	})
	if (n.IsMapping() || n.IsEmpty()) && n.Lacks("to") {
		n.FailKey("to is missing")
	}
	return m
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

func (t *Target) mail(out yaml.MapSlice) yaml.MapSlice {
	out = append(out, item("smtp", t.SMTP), item("from", t.From))
	for key, value := range map[string]string{"starttls": t.StartTLS, "username": t.Username, "hello": t.Hello, "templates": t.Templates} {
		if value != "" {
			out = append(out, item(key, value))
		}
	}
	slices.SortFunc(out[2:], func(a, b yaml.MapItem) int { return strings.Compare(a.Key.(string), b.Key.(string)) })
	if len(t.Password) > 0 {
		out = append(out, item("password", references(t.Password)))
	}
	out = t.DKIM.append(out)
	if len(t.Allow) > 0 {
		out = append(out, item("allow", prefixTexts(t.Allow)))
	}
	return out
}

func (m *Mail) append(to yaml.MapSlice) yaml.MapSlice {
	if m == nil {
		return to
	}
	out := yaml.MapSlice{item("to", m.To.String())}
	if m.ReplyTo != "" {
		out = append(out, item("reply_to", m.ReplyTo))
	}
	if len(m.ListUnsubscribe) > 0 {
		out = append(out, item("list_unsubscribe", m.ListUnsubscribe))
	}
	if m.OneClick {
		out = append(out, item("one_click", true))
	}
	if m.Attachments != nil {
		out = append(out, item("attachments", m.Attachments.String()))
	}
	if m.Template != "" {
		return append(to, item("mail", append(out, item("template", m.Template))))
	}
	out = append(out, item("subject", m.Subject))
	if m.Text != "" {
		out = append(out, item("text", m.Text))
	}
	if m.HTML != "" {
		out = append(out, item("html", m.HTML))
	}
	return append(to, item("mail", out))
}
