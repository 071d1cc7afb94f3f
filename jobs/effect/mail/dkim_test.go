package mail_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/jobs/effect/effecttest"
	"github.com/oncegate/oncegate/jobs/effect/mail"
)

// verifyDKIM checks the signature in front of a message as RFC 6376 describes it for relaxed/relaxed. It shares nothing with what
// signs.
func verifyDKIM(message []byte, key crypto.PublicKey) error {
	head, body, _ := bytes.Cut(message, []byte("\r\n\r\n"))
	var fields []string // each with its continuation lines
	for line := range strings.SplitSeq(string(head), "\r\n") {
		if strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t") {
			fields[len(fields)-1] += "\r\n" + line
		} else {
			fields = append(fields, line)
		}
	}
	spaces := regexp.MustCompile(`[ \t]+`)
	relaxed := func(field string) string {
		name, value, _ := strings.Cut(field, ":")
		value = strings.ReplaceAll(value, "\r\n", "")
		return strings.ToLower(strings.TrimSpace(name)) + ":" + strings.TrimSpace(spaces.ReplaceAllString(value, " "))
	}
	name, _, _ := strings.Cut(fields[0], ":")
	if !strings.EqualFold(name, "DKIM-Signature") {
		return errors.New("no signature in front")
	}
	tags := map[string]string{}
	for tag := range strings.SplitSeq(strings.SplitN(fields[0], ":", 2)[1], ";") {
		if key, value, ok := strings.Cut(tag, "="); ok {
			tags[strings.TrimSpace(key)] = strings.Join(strings.Fields(value), "")
		}
	}
	if tags["v"] != "1" || tags["c"] != "relaxed/relaxed" || tags["l"] != "" {
		return errors.New("other tags than expected")
	}

	lines := strings.Split(string(body), "\r\n")
	for i := range lines {
		lines[i] = strings.TrimRight(spaces.ReplaceAllString(lines[i], " "), " ")
	}
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	canonical := ""
	if len(lines) > 0 {
		canonical = strings.Join(lines, "\r\n") + "\r\n"
	}
	sum := sha256.Sum256([]byte(canonical))
	if base64.StdEncoding.EncodeToString(sum[:]) != tags["bh"] {
		return errors.New("the body differs")
	}

	var signed strings.Builder
	rest := slices.Clone(fields[1:])
	for wanted := range strings.SplitSeq(tags["h"], ":") {
		for i, field := range slices.Backward(rest) { // from the bottom, each once
			if name, _, _ := strings.Cut(field, ":"); strings.EqualFold(name, wanted) {
				signed.WriteString(relaxed(field) + "\r\n")
				rest = slices.Delete(rest, i, i+1)
				break
			}
		}
	}
	signed.WriteString(relaxed(regexp.MustCompile(`(;\s*b=)[^;]*`).ReplaceAllString(fields[0], "$1")))
	digest := sha256.Sum256([]byte(signed.String()))
	signature, err := base64.StdEncoding.DecodeString(tags["b"])
	if err != nil {
		return err
	}
	switch k := key.(type) {
	case *rsa.PublicKey:
		if tags["a"] != "rsa-sha256" {
			return errors.New("another algorithm")
		}
		return rsa.VerifyPKCS1v15(k, crypto.SHA256, digest[:], signature)
	case ed25519.PublicKey:
		if tags["a"] == "ed25519-sha256" && ed25519.Verify(k, digest[:], signature) {
			return nil
		}
	}
	return errors.New("the signature is wrong")
}

func pemOf(tb testing.TB, key any) []byte {
	tb.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		tb.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

func TestDKIM(t *testing.T) {
	t.Parallel()
	long, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	public, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		pem    []byte
		public crypto.PublicKey
	}{
		"RSA": {pemOf(t, long), &long.PublicKey}, "Ed25519": {pemOf(t, edwards), public},
		"RSA in PKCS #1": {pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(long)}), &long.PublicKey},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			signer, err := mail.NewDKIM(mail.DKIMConfig{Domain: "example.com", Selector: "mail2026", Key: c.pem})
			if err != nil {
				t.Fatal(err)
			}
			m, err := mail.NewMessage(mail.MessageConfig{
				From: "Shop <shop@example.com>", Subject: "Ünïcode {{.Body.id}} and a subject that is so long that it has to be folded somewhere", Text: "Total: {{.Body.total}} €\n.\n \t \n\n\n",
				HTML: "<p>{{.Body.id}}</p>", ListUnsubscribe: []string{"https://shop.example/u"}, OneClick: true, DKIM: signer,
			})
			if err != nil {
				t.Fatal(err)
			}
			call := effecttest.Call(1)
			call.Event.Body = []byte(`{"id":"<7>","total":12}`)
			if call.Rendered, err = m.Render(call, "Ann <ann@example.com>"); err != nil {
				t.Fatal(err)
			}
			if err := verifyDKIM(call.Rendered, c.public); err != nil {
				t.Errorf("%v: %s", err, call.Rendered)
			}
			// It arrives as it was signed, and as often as it is sent: the bytes are stored.
			server := effecttest.NewMailServer(t, effecttest.MailScript{"dot": "451 later"}, nil, false)
			sender, err := mail.New(mail.Config{Server: "smtp://" + server.Address, StartTLS: mail.StartTLSOff})
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				sender.Send(t.Context(), call)
			}
			sent := server.Sent()
			if len(sent) != 3 || sent[0] != sent[1] || sent[1] != sent[2] {
				t.Fatalf("%d messages, or they differ", len(sent))
			}
			if err := verifyDKIM([]byte(sent[0]), c.public); err != nil {
				t.Errorf("as it arrived: %v", err)
			}
			for _, change := range [][2]string{
				{"To: ", "To: Eve "}, {"Subject:", "Subject: Re:"}, {"<p>", "<b>"}, {"From: ", "From: evil@example.com\r\nFrom: "},
				{"MIME-Version:", "Reply-To: evil@example.com\r\nMIME-Version:"}, {"List-Unsubscribe: <https", "List-Unsubscribe: <http"},
			} {
				changed := bytes.Replace(call.Rendered, []byte(change[0]), []byte(change[1]), 1)
				if bytes.Equal(changed, call.Rendered) {
					t.Errorf("%q is not in the message", change[0])
				} else if verifyDKIM(changed, c.public) == nil {
					t.Errorf("%q can be changed", change[0])
				}
			}
			if unsigned := mail.Unsigned(call.Rendered); bytes.Contains(unsigned, []byte("DKIM")) || !bytes.HasSuffix(call.Rendered, unsigned) || len(unsigned) == len(call.Rendered) {
				t.Errorf("unsigned: %.80s", unsigned)
			}
		})
	}
	short, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, cfg := range map[string]mail.DKIMConfig{
		"a short key": {Domain: "example.com", Selector: "s", Key: pemOf(t, short)}, "a curve": {Domain: "example.com", Selector: "s", Key: pemOf(t, curve)},
		"no key": {Domain: "example.com", Selector: "s"}, "no PEM": {Domain: "example.com", Selector: "s", Key: []byte("canary")},
		"another PEM": {Domain: "example.com", Selector: "s", Key: []byte("-----BEGIN PRIVATE KEY-----\nY2FuYXJ5\n-----END PRIVATE KEY-----\n")},
		"no domain":   {Selector: "s", Key: pemOf(t, edwards)}, "no selector": {Domain: "example.com", Key: pemOf(t, edwards)},
		"a line": {Domain: "example.com\r\nX: y", Selector: "s", Key: pemOf(t, edwards)},
	} {
		if _, err := mail.NewDKIM(cfg); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
