package app_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/inboxtest"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/refusal"
	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/session"
)

// notifier signs messages of a topic in a region that does not exist, so that its
// certificate can be got from nowhere.
type notifier struct {
	key     *rsa.PrivateKey
	pem     []byte
	address string
}

const nowhereTopic = "arn:aws:sns:nowhere-1:123456789012:orders"

func newNotifier(t *testing.T) *notifier {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "sns.amazonaws.com"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return &notifier{
		key: key, pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		address: "https://sns.nowhere-1.amazonaws.com/SimpleNotificationService-0123456789abcdef0123456789abcdef.pem",
	}
}

func (n *notifier) message(t *testing.T, id string) []byte {
	t.Helper()
	at := time.Now().UTC().Format(time.RFC3339)
	sum := sha256.Sum256([]byte("Message\nhello\nMessageId\n" + id + "\nTimestamp\n" + at + "\nTopicArn\n" + nowhereTopic + "\nType\nNotification\n"))
	signature, err := rsa.SignPKCS1v15(rand.Reader, n.key, crypto.SHA256, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(map[string]string{
		"Type": "Notification", "MessageId": id, "TopicArn": nowhereTopic, "Message": "hello", "Timestamp": at,
		"SignatureVersion": "2", "Signature": base64.StdEncoding.EncodeToString(signature), "SigningCertURL": n.address,
	})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// config lets the source take messages of a topic.
func (n *notifier) config(topic string) string {
	return `
targets: { there: { kind: noop } }
sources:
  sns:
    provider: amazon-sns
    settings: { topic_arns: ["` + topic + `"], roots: ` + fmt.Sprintf("%q", n.pem) + ` }
    routes: [{ name: a, target: there }]
`
}

// A certificate that has verified something outlives the process, in the database: a
// process that starts needs nobody to ask. The same holds for `refusals reverify`.
func TestVerifiedKeysOutliveTheProcess(t *testing.T) {
	t.Parallel()
	n := newNotifier(t)
	url, schema := inboxtest.Schema(t)
	pool := inboxtest.Open(t, url, schema, session.PoolAdmin, 2)
	digest := sha256.Sum256([]byte(n.address + "\n"))
	earlier := time.Now().Add(-26 * time.Hour)
	stored := &inbox.VerifiedKey{Digest: digest[:], URL: n.address, Document: n.pem, FetchedAt: time.Now().Add(-time.Hour * 2), VerifiedAt: earlier}
	if err := inbox.WriteVerifiedKey(t.Context(), pool, stored); err != nil {
		t.Fatal(err)
	}
	// The topic is missing from the configuration, so that what comes is refused.
	botched := judgeConfig(t, url, schema, n.config("arn:aws:sns:nowhere-1:123456789012:another"), "")
	mended := judgeConfig(t, url, schema, n.config(nowhereTopic), "")
	send := func(a *app.App, body []byte) int {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+a.PublicAddr().String()+"/in/sns", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "text/plain; charset=UTF-8")
		response, err := client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		return response.StatusCode
	}
	first := newApp(t, botched)
	if err := first.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if status := send(first, n.message(t, "evt-1")); status != http.StatusUnauthorized {
		t.Fatalf("status %d", status)
	}
	inboxtest.Until(t, "the refusal is kept", func() bool { return rowsOf(t, pool, `SELECT count(*) FROM refusal WHERE whole`) == 1 })
	if err := first.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}

	report, err := app.Reverify(t.Context(), app.ReverifyConfig{
		Settings: mended, Logger: slog.New(slog.DiscardHandler), Source: "sns", Actor: "ann", Reason: "the topic was missing",
	})
	if want := (refusal.ReverifyReport{Examined: 1, Verified: 1, Recorded: 1}); err != nil || report != want {
		t.Errorf("%+v %v, want %+v", report, err, want)
	}

	second := newApp(t, mended)
	if err := second.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = second.Stop(context.WithoutCancel(t.Context())) })
	if status := send(second, n.message(t, "evt-2")); status != http.StatusOK {
		t.Errorf("after a start: status %d", status)
	}
	inboxtest.Until(t, "the store knows that it verified something", func() bool {
		return rowsOf(t, pool, `SELECT count(*) FROM verified_key WHERE verified_at > now() - interval '1 hour'`) == 1
	})
	response, err := client().Get("http://" + second.AdminAddr().String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`oncegate_key_documents{kind="proven"} 1`, `oncegate_key_documents{kind="unproven"} 0`, `oncegate_key_deferrals_total{cause="budget"} 0`,
		`oncegate_key_deferrals_total{cause="pause"} 0`, `oncegate_key_deferrals_total{cause="crowd"} 0`, `oncegate_key_fetches_total{kind="unproven",result="got"} 0`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in the metrics", want)
		}
	}
	// A series begins with its first event, and no delivery waited for a key.
	if awaited := `outcome="key_awaited"`; strings.Contains(string(text), awaited) {
		t.Errorf("the metrics have %s", awaited)
	}
}

// A refusal whose key cannot be got now stays, and the run goes on with the others.
func TestReverifyGoesOnWithoutAKey(t *testing.T) {
	t.Parallel()
	url, schema := inboxtest.Schema(t)
	pool := inboxtest.Open(t, url, schema, session.PoolAdmin, 2)
	if _, err := pool.Exec(t.Context(), `INSERT INTO source (id, name, provider, class) OVERRIDING SYSTEM VALUE VALUES (7, 'a', 'p', 'default')`); err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{"x", "y", "x", "y"} {
		_, err := pool.Exec(t.Context(), `INSERT INTO refusal (id, source_id, received_at, cause, diagnosis, whole, method, url, remote, headers, body, size)
			VALUES ($1, 7, now(), 'mismatch', '', true, 'POST', '/in/a', '', '{}', $2, 1)`, inbox.NewID(time.Now()), body)
		if err != nil {
			t.Fatal(err)
		}
	}
	report, err := refusal.Reverify{
		Pool: pool, Source: 7, Name: "a", DryRun: true,
		Verify: func(r *read.RefusalDetail) (*inbox.Admission, error) {
			if string(r.Body) == "x" {
				return nil, fmt.Errorf("%w: no budget", refusal.ErrUndecided)
			}
			return &inbox.Admission{Events: []inbox.NewEvent{{EventID: string(r.Body)}}}, nil
		},
	}.Run(t.Context())
	if want := (refusal.ReverifyReport{Examined: 4, Undecided: 2, Verified: 2, Recorded: 1, Duplicates: 1}); err != nil || report != want {
		t.Errorf("%+v %v, want %+v", report, err, want)
	}
}
