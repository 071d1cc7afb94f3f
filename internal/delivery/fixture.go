package delivery

import (
	"bufio"
	"bytes"
	"embed"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"time"

	"github.com/oncegate/oncegate/internal/yamltree"
)

//go:embed fixtures/*.http
var fixtureFiles embed.FS

// Fixture is a payload that looks like a sender's, with invented content. Its file has the headers,
// an empty line and the body, with the places that [fill] fills.
type Fixture struct {
	Name     string `json:"name"`
	Provider string `json:"provider"`
	Type     string `json:"type"`
	About    string `json:"about"`
}

// fixtures are all fixtures, by name.
var fixtures = [...]Fixture{
	{"calendly-invitee-created", "calendly", "invitee.created", "somebody booked a meeting"},
	{"clerk-user-created", "clerk", "user.created", "a user signed up"},
	{"github-push", "github", "push", "a commit was pushed to main"},
	{"gitlab-merge-request-open", "gitlab", "Merge Request Hook:open", "a merge request was opened"},
	{"hubspot-contact-creation", "hubspot", "contact.creation", "a contact was created"},
	{"intercom-conversation-user-created", "intercom", "conversation.user.created", "a customer began a conversation"},
	{"jira-issue-updated", "jira", "jira:issue_updated", "an issue went from To Do to In Progress"},
	{"linear-issue-create", "linear", "Issue.create", "an issue was created"},
	{"mailgun-delivered", "mailgun", "delivered", "a message was delivered"},
	{"paddle-transaction-completed", "paddle", "transaction.completed", "a transaction was completed"},
	{"resend-email-delivered", "resend", "email.delivered", "a message was delivered"},
	{"shopify-orders-create", "shopify", "orders/create", "an order with one line was placed"},
	{"slack-message", "slack", "message", "somebody wrote in a channel"},
	{"square-payment-updated", "square", "payment.updated", "a card payment was completed"},
	{"standard-webhooks-order-created", "standard-webhooks", "order.created", "an order was created"},
	{"stripe-invoice-paid", "stripe", "invoice.paid", "the invoice of a subscription was paid"},
	{"twilio-message-received", "twilio", "message.received", "a text message arrived"},
	{"typeform-form-response", "typeform", "form_response", "a form was answered"},
	{"woocommerce-order-created", "woocommerce", "order.created", "an order with one line was placed"},
	{"zendesk-ticket-created", "zendesk", "zen:event-type:ticket.created", "a ticket was created"},
	{"zoom-meeting-started", "zoom", "meeting.started", "a meeting started"},
}

// Fixtures returns all fixtures, sorted by name.
func Fixtures() []Fixture { return fixtures[:] }

// FindFixture returns the fixture of a name, or the one of a provider. The error of an unknown name
// suggests a similar one.
func FindFixture(name string) (*Fixture, error) {
	if f := fixtureWhere(func(f Fixture) bool { return f.Name == name || f.Provider == name }); f != nil {
		return f, nil
	}
	known := make([]string, len(fixtures))
	for i, f := range fixtures {
		known[i] = f.Name
	}
	return nil, fmt.Errorf("%q is unknown; %s`oncegate send --list` shows all", name, yamltree.DidYouMean(known, name))
}

// FixtureOf returns the fixture of a provider, or nil.
func FixtureOf(provider string) *Fixture {
	return fixtureWhere(func(f Fixture) bool { return f.Provider == provider })
}

func fixtureWhere(is func(Fixture) bool) *Fixture {
	if i := slices.IndexFunc(fixtures[:], is); i >= 0 {
		return &fixtures[i]
	}
	return nil
}

// fill returns the headers and the body of the fixture with an event id and a time.
func (f *Fixture) fill(id string, made time.Time) (http.Header, []byte, error) {
	content, err := fixtureFiles.ReadFile("fixtures/" + f.Name + ".http")
	if err != nil {
		return nil, nil, fmt.Errorf("reading the fixture %s: %w", f.Name, err)
	}
	reader := bufio.NewReader(bytes.NewReader(content))
	header, err := textproto.NewReader(reader).ReadMIMEHeader()
	if err != nil {
		return nil, nil, fmt.Errorf("reading the fixture %s: %w", f.Name, err)
	}
	body, err := io.ReadAll(reader)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the fixture %s: %w", f.Name, err)
	}
	headers := map[string]string{}
	for name, values := range header {
		headers[name] = strings.Join(values, ", ")
	}
	filled, text := fill(headers, string(body), id, made)
	return filled, text, nil
}
