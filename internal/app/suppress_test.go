package app_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/suppression"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/expression"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/jobs/effect/effecttest"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
)

// What vendors publish as examples, shortened where it does not matter.
const (
	// https://docs.aws.amazon.com/ses/latest/dg/notification-examples.html
	sesBounce = `{"notificationType":"Bounce","bounce":{"bounceType":"Permanent","reportingMTA":"dns; email.example.com","bouncedRecipients":[{"emailAddress":"jane@example.com","status":"5.1.1","action":"failed","diagnosticCode":"smtp; 550 5.1.1 <jane@example.com>... User"}],"bounceSubType":"General","timestamp":"2016-01-27T14:59:38.237Z","feedbackId":"00000138111222aa-33322211-cccc-cccc-cccc-ddddaaaa068a-000000","remoteMtaIp":"127.0.2.0"},"mail":{"timestamp":"2016-01-27T14:59:38.237Z","source":"john@example.com","destination":["jane@example.com","mary@example.com","richard@example.com"]}}`
	// The same, of a mailbox that is full.
	sesTransient = `{"notificationType":"Bounce","bounce":{"bounceType":"Transient","bounceSubType":"MailboxFull","bouncedRecipients":[{"emailAddress":"jane@example.com"}]},"mail":{}}`
	sesComplaint = `{"notificationType":"Complaint","complaint":{"userAgent":"AnyCompany Feedback Loop (V0.01)","complainedRecipients":[{"emailAddress":"richard@example.com"}],"complaintFeedbackType":"abuse","arrivalDate":"2016-01-27T14:59:38.237Z","timestamp":"2016-01-27T14:59:38.237Z","feedbackId":"000001378603177f-18c07c78-fa81-4a58-9dd1-fedc3cb8f49a-000000"},"mail":{"destination":["jane@example.com","richard@example.com"]}}`
	// https://www.twilio.com/docs/sendgrid/for-developers/tracking-events/event
	sendgridBounce      = `{"email":"example@test.com","timestamp":1513299569,"smtp-id":"<14c5d75ce93.dfd.64b469@ismtpd-555>","event":"bounce","category":"cat facts","sg_event_id":"sg_event_id","sg_message_id":"sg_message_id","reason":"500 unknown recipient","status":"5.0.0"}`
	sendgridBlocked     = `{"email":"example@test.com","timestamp":1513299569,"event":"bounce","sg_event_id":"sg_event_id","reason":"550 blocked","status":"5.7.1","type":"blocked"}`
	sendgridSpam        = `{"email":"example@test.com","timestamp":1513299569,"smtp-id":"<14c5d75ce93.dfd.64b469@ismtpd-555>","event":"spamreport","category":"cat facts","sg_event_id":"sg_event_id","sg_message_id":"sg_message_id"}`
	sendgridUnsubscribe = `{"email":"example@test.com","timestamp":1513299569,"smtp-id":"<14c5d75ce93.dfd.64b469@ismtpd-555>","event":"unsubscribe","category":"cat facts","sg_event_id":"sg_event_id","sg_message_id":"sg_message_id"}`
	// https://postmarkapp.com/developer/webhooks/bounce-webhook
	postmarkBounce = `{"RecordType":"Bounce","MessageStream":"outbound","ID":4323372036854775807,"Type":"HardBounce","TypeCode":1,"Name":"Hard bounce","Tag":"Test","MessageID":"883953f4-6105-42a2-a16a-77a8eac79483","ServerID":23,"Description":"The server was unable to deliver your message (ex: unknown user, mailbox not found).","Details":"Test bounce details","Email":"john@example.com","From":"sender@example.com","BouncedAt":"2019-11-05T16:33:54.9070259Z","DumpAvailable":true,"Inactive":true,"CanActivate":true,"Subject":"Test subject"}`
	// The same of a mailbox that is full, which Postmark goes on to deliver to.
	postmarkSoft = `{"RecordType":"Bounce","ID":43,"Type":"SoftBounce","TypeCode":4096,"MessageID":"883953f4-6105-42a2-a16a-77a8eac79484","Email":"john@example.com","BouncedAt":"2019-11-05T16:33:54.9070259Z","Inactive":false,"CanActivate":false}`
	// https://postmarkapp.com/developer/webhooks/spam-complaint-webhook
	postmarkSpam = `{"RecordType":"SpamComplaint","MessageStream":"outbound","ID":42,"Type":"SpamComplaint","TypeCode":512,"Name":"Spam complaint","Tag":"Test","MessageID":"00000000-0000-0000-0000-000000000000","ServerID":1234,"Description":"","Details":"Test spam complaint details","Email":"john@example.com","From":"sender@example.com","BouncedAt":"2019-11-05T16:33:54.9070259Z","DumpAvailable":true,"Inactive":true,"CanActivate":false,"Subject":"Test subject","Content":"<Abuse report dump>"}`
	// https://postmarkapp.com/developer/webhooks/subscription-change-webhook
	postmarkChange = `{"RecordType":"SubscriptionChange","MessageID":"883953f4-6105-42a2-a16a-77a8eac79483","ServerID":123456,"MessageStream":"outbound","ChangedAt":"2020-02-01T10:53:34.416071Z","Recipient":"bounced-address@wildbit.com","Origin":"Recipient","SuppressSending":true,"SuppressionReason":"ManualSuppression","Tag":"my-tag"}`
	// https://documentation.mailgun.com/docs/mailgun/user-manual/webhooks/webhook-payloads
	mailgunFailed       = `{"signature":{},"event-data":{"id":"G9Bn5sl1TC6nu79C8C0bwg","timestamp":1521233195.375624,"log-level":"error","event":"failed","severity":"permanent","reason":"suppress-bounce","delivery-status":{"code":605,"message":"","description":"Not delivering to previously bounced address"},"recipient":"alice@example.com","recipient-domain":"example.com"}}`
	mailgunComplained   = `{"signature":{},"event-data":{"id":"-Agny091SquKnsrW2NEKUA","timestamp":1521233123.501324,"log-level":"warn","event":"complained","envelope":{"sending-ip":"173.193.210.33"},"recipient":"alice@example.com"}}`
	mailgunUnsubscribed = `{"signature":{},"event-data":{"id":"Ase7i2zsRYeDXztHGENqRA","timestamp":1521243339.873676,"log-level":"info","event":"unsubscribed","recipient":"alice@example.com"}}`
)

// sns is a message of SES as Amazon SNS delivers it.
func sns(message string) string {
	text, _ := json.Marshal(map[string]string{"Type": "Notification", "MessageId": "22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324", "Message": message}) //nolint:errchkjson // texts
	return string(text)
}

// recipes is the block of the guide that has routes of four providers.
func recipes(t *testing.T) string {
	t.Helper()
	guide, err := os.ReadFile("../../docs/guides/suppressions.md")
	if err != nil {
		t.Fatal(err)
	}
	for block := range strings.SplitSeq(string(guide), "```yaml\n") {
		if body, _, ok := strings.Cut(block, "```"); ok && strings.Contains(body, "kind: suppress") {
			return body
		}
	}
	t.Fatal("the guide has no such block")
	return ""
}

// The routes of the guide do with the examples that the vendors publish what they promise.
func TestSuppressionRecipes(t *testing.T) {
	t.Parallel()
	cat := catalogtest.Load(t)
	cfg, err := config.Load(config.Options{Catalog: cat, File: "oncegate.yml", Content: []byte(recipes(t)), Environ: []string{
		"DATABASE_URL=postgres://a.example/b", "POSTMARK_CREDENTIAL=user:pass", "MAILGUN_SIGNING_KEY=k",
		"SENDGRID_PUBLIC_KEY=MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE83T4O/n84iotIvIW4mdBgQ/7dAfSmpqIM8kF9mN1flpVKS3GRqe62gw+2fNNRaINXvVpiglSI8eNEc6wEA3F+g==",
	}})
	if err != nil {
		t.Fatal(err)
	}
	tried := map[string]bool{}
	for _, c := range []struct {
		source, kind, body, want string
		reason                   suppression.Reason
	}{
		{"ses", "Notification", sns(sesBounce), "jane@example.com", suppression.Bounce},
		{"ses", "Notification", sns(sesTransient), "", ""},
		{"ses", "Notification", sns(sesComplaint), "richard@example.com", suppression.Complaint},
		{"sendgrid", "bounce", sendgridBounce, "example@test.com", suppression.Bounce},
		{"sendgrid", "bounce", sendgridBlocked, "", ""},
		{"sendgrid", "spamreport", sendgridSpam, "example@test.com", suppression.Complaint},
		{"sendgrid", "unsubscribe", sendgridUnsubscribe, "example@test.com", suppression.Unsubscribe},
		{"postmark", "Bounce", postmarkBounce, "john@example.com", suppression.Bounce},
		{"postmark", "Bounce", postmarkSoft, "", ""},
		{"postmark", "SpamComplaint", postmarkSpam, "john@example.com", suppression.Complaint},
		{"postmark", "SubscriptionChange", postmarkChange, "bounced-address@wildbit.com", suppression.Unsubscribe},
		{"mailgun", "failed.permanent", mailgunFailed, "alice@example.com", suppression.Bounce},
		{"mailgun", "failed.temporary", mailgunFailed, "", ""},
		{"mailgun", "complained", mailgunComplained, "alice@example.com", suppression.Complaint},
		{"mailgun", "unsubscribed", mailgunUnsubscribed, "alice@example.com", suppression.Unsubscribe},
	} {
		at := slices.IndexFunc(cfg.Sources, func(s *config.Source) bool { return s.Name == c.source })
		var got []string
		var reason suppression.Reason
		for _, route := range cfg.Sources[at].Routes {
			takes := slices.ContainsFunc(route.Types, func(glob string) bool { ok, _ := path.Match(glob, c.kind); return ok })
			in := &expression.Input{Body: []byte(c.body)}
			if takes && route.When != nil {
				if takes, err = route.When.Bool(in); err != nil {
					t.Fatalf("%s %s: %v", c.source, c.kind, err)
				}
			}
			if !takes {
				continue
			}
			tried[c.source+"/"+route.Name] = true
			addresses, err := route.Target.Suppress.Address.Texts(in)
			if err != nil {
				t.Fatalf("%s %s: %v", c.source, c.kind, err)
			}
			got = append(got, addresses...)
			if reason = route.Target.Suppress.Reason; reason == "" {
				texts, err := route.Target.Suppress.ReasonOf.Texts(in)
				if err != nil || len(texts) != 1 {
					t.Fatalf("%s %s: %v %v", c.source, c.kind, texts, err)
				}
				reason = suppression.Reason(texts[0])
			}
		}
		if strings.Join(got, " ") != c.want || reason != c.reason {
			t.Errorf("%s %s: %v as %q, want %s as %q", c.source, c.kind, got, reason, c.want, c.reason)
		}
	}
	for _, s := range cfg.Sources {
		for _, route := range s.Routes {
			if !tried[s.Name+"/"+route.Name] {
				t.Errorf("nothing tries route %s of %s", route.Name, s.Name)
			}
		}
	}
}

const suppressFile = `
targets:
  letters: { kind: mail, smtp: env:SMTP, from: Shop <shop@example.com>, starttls: off }
  bounced: { kind: suppress, address: body.Email, reason: 'body.RecordType == "Bounce" ? "bounce" : "whim"' }
sources:
  agents:
    provider: operation
    secrets: [{ env: AGENT, name: agent }]
    routes:
      - { name: letter, types: [announce], target: letters, mail: { to: body.to, subject: News, text: "{{.Body.text}}" } }
  postmark:
    provider: postmark
    secrets: [env:POSTMARK]
    routes:
      - { name: suppress, types: [Bounce, SpamComplaint], target: bounced }
`

// A bounce that is delivered suppresses its address, and of a list only that recipient gets nothing.
func TestBounceSuppressesRecipient(t *testing.T) {
	t.Parallel()
	mails := effecttest.NewMailServer(t, nil, nil, false)
	url, schema := inboxtest.Schema(t)
	cat := catalogtest.Load(t)
	cfg, err := config.Load(config.Options{Catalog: cat, File: "oncegate.yml", Content: []byte(suppressFile), Environ: []string{
		"DATABASE_URL=" + url, "ONCEGATE_SCHEMA=" + schema, "ONCEGATE_PUBLIC=127.0.0.1:0", "ONCEGATE_ADMIN=127.0.0.1:0",
		"AGENT=agent_secret", "POSTMARK=user:pass", "SMTP=smtp://" + mails.Address,
	}})
	if err != nil {
		t.Fatal(err)
	}
	o := &operated{a: newApp(t, cfg), schema: schema, pool: inboxtest.Open(t, url, schema, session.PoolAdmin, 2)}
	if err := o.a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := o.a.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	authorization := "Basic " + base64.StdEncoding.EncodeToString([]byte("user:pass"))
	if got := o.do(t, "POST", "postmark", postmarkBounce, "Authorization", authorization); got.status/100 != 2 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	inboxtest.Until(t, "the bounce is done", func() bool { return rowsOf(t, o.pool, `SELECT count(*) FROM effect WHERE state = 'done'`) == 1 })
	if n := rowsOf(t, o.pool, `SELECT count(*) FROM suppression s JOIN inbox_event e ON e.id = s.source_event WHERE s.reason = 'bounce' AND s.expires_at IS NULL`); n != 1 {
		t.Errorf("%d suppressions of the event", n)
	}
	// An event whose reason is none of the known ones is a dead letter, and quotes nothing.
	if got := o.do(t, "POST", "postmark", postmarkSpam, "Authorization", authorization); got.status/100 != 2 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	inboxtest.Until(t, "the complaint is dead", func() bool {
		return rowsOf(t, o.pool, `SELECT count(*) FROM effect WHERE state = 'dead' AND reason = 'mapping_failed'`) == 1
	})
	if n := rowsOf(t, o.pool, `SELECT count(*) FROM effect_attempt WHERE excerpt LIKE '%john%' OR excerpt LIKE '%whim%'`); n != 0 {
		t.Errorf("%d attempts quote the event", n)
	}

	got := o.do(t, "POST", "agents", `{"to":["ann@example.com","John@Example.com","eve@example.com"],"text":"hello"}`,
		"Oncegate-Operation", "announce", "Idempotency-Key", "k1-of-a-list-of-three", "Prefer", "wait=40")
	if got.status != http.StatusOK {
		t.Fatalf("%d %s", got.status, got.body)
	}
	var to []string
	for _, m := range mails.Got() {
		to = append(to, strings.TrimSuffix(strings.TrimPrefix(m.To, "TO:<"), ">"))
	}
	slices.Sort(to)
	if want := []string{"ann@example.com", "eve@example.com"}; !slices.Equal(to, want) {
		t.Errorf("sent to %v", to)
	}
	if n := rowsOf(t, o.pool, `SELECT count(*) FROM effect WHERE state = 'skipped' AND reason = 'suppressed'`); n != 1 {
		t.Errorf("%d were skipped", n)
	}
	metrics := scrape(t, o.a)
	for _, line := range []string{
		`oncegate_attempts_total{outcome="skipped",reason="suppressed",route="letter",source="agents",target="letters"} 1`,
		`oncegate_suppressed_addresses_total{reason="bounce"} 1`, `oncegate_suppressed_addresses_total{reason="complaint"} 0`,
	} {
		if !strings.Contains(metrics, line) {
			t.Errorf("no %s in %s", line, lineWith(metrics, "suppressed"))
		}
	}
	// One recipient who is no list, and was suppressed after the event came.
	if n := len(mails.Got()); n != 2 {
		t.Errorf("%d messages", n)
	}
	if got := o.do(t, "POST", "agents", `{"to":"john@example.com","text":"hello"}`,
		"Oncegate-Operation", "announce", "Idempotency-Key", "k2-of-a-single-recipient", "Prefer", "wait=40"); got.status != http.StatusOK || len(mails.Got()) != 2 {
		t.Errorf("%d %s, %d messages", got.status, got.body, len(mails.Got()))
	}
}
