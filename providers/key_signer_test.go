package providers_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"hash/crc32"
	"math/big"
	"net/http"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/oncegate/oncegate/providers"
)

// signer is a sender of signed requests, with the keys of which it has published some.
type signer struct {
	name     string
	settings map[string][]string
	secrets  []providers.Secret
	rotate   func()                                          // to a new key, which is published
	genuine  func(id string, at time.Time) providers.Request // under the newest key
	forged   func(n int, at time.Time) providers.Request     // with a key that does not exist
}

func privateKey(t *testing.T) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// authority signs certificates of a name.
type authority struct {
	key  *rsa.PrivateKey
	cert *x509.Certificate
	pem  []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{key: privateKey(t)}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: noon.Add(-time.Hour), NotAfter: noon.Add(240 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a
}

func (a *authority) issue(t *testing.T, key *rsa.PrivateKey, name string, until time.Time) []byte {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotBefore: noon.Add(-time.Hour), NotAfter: until, DNSNames: []string{name},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func rsaSignature(t *testing.T, key *rsa.PrivateKey, message string) string {
	t.Helper()
	digest := sha256.Sum256([]byte(message))
	sum, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, digest[:])
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(sum)
}

// anySignature is as long as a real one.
func anySignature() string { return base64.StdEncoding.EncodeToString(make([]byte, 256)) }

func post(body []byte, at time.Time, headers map[string]string) providers.Request {
	r := providers.Request{Method: http.MethodPost, URL: "https://example.com/in/shop", Header: http.Header{}, Body: body, ReceivedAt: at}
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	return r
}

func snsSigner(t *testing.T, p *publisher) *signer {
	t.Helper()
	const topic = "arn:aws:sns:eu-west-1:123456789012:orders"
	ca := newAuthority(t)
	var key *rsa.PrivateKey
	var address string
	keys := 0
	s := &signer{name: "amazon-sns", settings: map[string][]string{"topic_arns": {topic}, "roots": {string(ca.pem)}}}
	s.rotate = func() {
		keys++
		key, address = privateKey(t), fmt.Sprintf("https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-%032x.pem", 1<<60+keys)
		p.says(address, ca.issue(t, key, "sns.amazonaws.com", noon.Add(100*time.Hour)))
	}
	message := func(id, address string, at time.Time, sign func(text string) string) providers.Request {
		stamp := at.UTC().Format(time.RFC3339)
		text := "Message\nhello\nMessageId\n" + id + "\nTimestamp\n" + stamp + "\nTopicArn\n" + topic + "\nType\nNotification\n"
		body, _ := json.Marshal(map[string]string{
			"Type": "Notification", "MessageId": id, "TopicArn": topic, "Message": "hello", "Timestamp": stamp,
			"SignatureVersion": "2", "Signature": sign(text), "SigningCertURL": address,
		})
		return post(body, at, nil)
	}
	s.genuine = func(id string, at time.Time) providers.Request {
		return message(id, address, at, func(text string) string { return rsaSignature(t, key, text) })
	}
	s.forged = func(n int, at time.Time) providers.Request {
		return message("forged", fmt.Sprintf("https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-%032x.pem", n), at, func(string) string { return anySignature() })
	}
	return s
}

func paypalSigner(t *testing.T, p *publisher) *signer {
	t.Helper()
	ca := newAuthority(t)
	var key *rsa.PrivateKey
	var address string
	keys := 0
	s := &signer{name: "paypal", settings: map[string][]string{"webhook_id": {"8PT597110X687430L"}, "roots": {string(ca.pem)}}}
	s.rotate = func() {
		keys++
		key, address = privateKey(t), fmt.Sprintf("https://api.paypal.com/v1/notifications/certs/CERT-360caa42-fca2a594-g%d", keys)
		p.says(address, ca.issue(t, key, "messageverificationcerts.paypal.com", noon.Add(100*time.Hour)))
	}
	message := func(id, address string, at time.Time, sign func(text string) string) providers.Request {
		body := fmt.Appendf(nil, `{"id":"WH-%s","event_type":"PAYMENT.CAPTURE.COMPLETED","create_time":"2026-03-01T12:00:00Z","resource":{"id":"c_1"}}`, id)
		stamp := at.UTC().Format(time.RFC3339)
		text := fmt.Sprintf("%s|%s|8PT597110X687430L|%d", id, stamp, crc32.ChecksumIEEE(body))
		return post(body, at, map[string]string{
			"Content-Type": "application/json", "Paypal-Transmission-Id": id, "Paypal-Transmission-Time": stamp, "Paypal-Transmission-Sig": sign(text),
			"Paypal-Cert-Url": address, "Paypal-Auth-Algo": "SHA256withRSA",
		})
	}
	s.genuine = func(id string, at time.Time) providers.Request {
		return message(id, address, at, func(text string) string { return rsaSignature(t, key, text) })
	}
	s.forged = func(n int, at time.Time) providers.Request {
		return message("forged", fmt.Sprintf("https://api.paypal.com/v1/notifications/certs/CERT-360caa42-fca2a594-%08x", n), at, func(string) string { return anySignature() })
	}
	return s
}

// adobeSigner signs with two keys, as Adobe does, and rotates both at once, which is the
// worst that can happen.
func adobeSigner(t *testing.T, p *publisher) *signer {
	t.Helper()
	var key *rsa.PrivateKey
	keys := 0
	s := &signer{name: "adobe-io-events", settings: map[string][]string{"client_id": {"3ce1f0e4c7a84d0f9d1b6a2b8c7e5f10"}}}
	path := func(n string) string { return "/prod/keys/pub-key-" + n + ".pem" }
	s.rotate = func() {
		keys++
		key = privateKey(t)
		der, err := x509.MarshalPKIXPublicKey(key.Public())
		if err != nil {
			t.Fatal(err)
		}
		for n := 1; n <= 2; n++ {
			p.says("https://static.adobeioevents.com"+path(fmt.Sprintf("g%d-%d", keys, n)), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
		}
	}
	message := func(id string, paths [2]string, at time.Time, sign func(text string) string) providers.Request {
		body := fmt.Appendf(nil, `{"event_id":%q,"type":"asset_created","event":{},"recipient_client_id":"3ce1f0e4c7a84d0f9d1b6a2b8c7e5f10"}`, id)
		return post(body, at, map[string]string{
			"Content-Type": "application/json", "X-Adobe-Digital-Signature-1": sign(string(body)), "X-Adobe-Digital-Signature-2": sign(string(body)),
			"X-Adobe-Public-Key1-Path": paths[0], "X-Adobe-Public-Key2-Path": paths[1],
		})
	}
	s.genuine = func(id string, at time.Time) providers.Request {
		return message(id, [2]string{path(fmt.Sprintf("g%d-1", keys)), path(fmt.Sprintf("g%d-2", keys))}, at, func(text string) string { return rsaSignature(t, key, text) })
	}
	s.forged = func(n int, at time.Time) providers.Request {
		return message("forged", [2]string{path(fmt.Sprintf("%08x", 2*n)), path(fmt.Sprintf("%08x", 2*n+1))}, at, func(string) string { return anySignature() })
	}
	return s
}

func tokenSigner(t *testing.T, p *publisher) *signer {
	t.Helper()
	const address = "https://sender.example/jwks.json"
	var key *rsa.PrivateKey
	var set jose.JSONWebKeySet
	s := &signer{name: "generic-jwt", settings: map[string][]string{"keys_url": {address}, "issuer": {"https://sender.example"}, "audience": {"shop"}}}
	s.rotate = func() {
		key = privateKey(t)
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: key.Public(), KeyID: fmt.Sprintf("genuine-%d", len(set.Keys)), Algorithm: "RS256", Use: "sig"})
		text, err := json.Marshal(set)
		if err != nil {
			t.Fatal(err)
		}
		p.says(address, text)
	}
	message := func(id, kid string, at time.Time, sign func(text string) string) providers.Request {
		body := fmt.Appendf(nil, `{"id":%q,"type":"a"}`, id)
		sum := sha256.Sum256(body)
		claims := fmt.Sprintf(`{"iss":"https://sender.example","aud":"shop","exp":%d,"iat":%d,"jti":%q,"sha256":"%x","request_body_sha256":"%x"}`, at.Unix()+300, at.Unix(), id, sum, sum)
		text := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"alg":"RS256","kid":%q}`, kid)) + "." + base64.RawURLEncoding.EncodeToString([]byte(claims))
		raw, _ := base64.StdEncoding.DecodeString(sign(text))
		return post(body, at, map[string]string{"Content-Type": "application/json", "X-Signature-JWT": text + "." + base64.RawURLEncoding.EncodeToString(raw)})
	}
	s.genuine = func(id string, at time.Time) providers.Request {
		return message(id, fmt.Sprintf("genuine-%d", len(set.Keys)-1), at, func(text string) string { return rsaSignature(t, key, text) })
	}
	s.forged = func(n int, at time.Time) providers.Request {
		return message("forged", fmt.Sprintf("forged-%d", n), at, func(string) string { return anySignature() })
	}
	return s
}

// plaidSigner signs tokens whose key Plaid returns by its id.
func plaidSigner(t *testing.T, p *publisher) *signer {
	t.Helper()
	var key *ecdsa.PrivateKey
	keys := 0
	id := func(n int) string { return fmt.Sprintf("bfbd5111-8e33-4643-8ced-%012x", n) }
	s := &signer{name: "plaid", secrets: []providers.Secret{{Name: "main", Value: []byte("client:secret")}}}
	s.rotate = func() {
		keys++
		var err error
		if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(map[string]any{"key": jose.JSONWebKey{Key: key.Public(), KeyID: id(1<<40 + keys), Algorithm: "ES256", Use: "sig"}})
		if err != nil {
			t.Fatal(err)
		}
		p.says(`https://production.plaid.com/webhook_verification_key/get`+"\n"+`{"client_id":"client","key_id":"`+id(1<<40+keys)+`","secret":"secret"}`, text)
	}
	message := func(text, kid string, at time.Time, sign func(text []byte) []byte) providers.Request {
		body := fmt.Appendf(nil, `{"webhook_type":"ITEM","webhook_code":"ERROR","item_id":%q}`, text)
		token := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"alg":"ES256","kid":%q,"typ":"JWT"}`, kid)) + "." +
			base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"iat":%d,"request_body_sha256":"%x"}`, at.Unix(), sha256.Sum256(body)))
		return post(body, at, map[string]string{"Content-Type": "application/json", "Plaid-Verification": token + "." + base64.RawURLEncoding.EncodeToString(sign([]byte(token)))})
	}
	s.genuine = func(text string, at time.Time) providers.Request {
		return message(text, id(1<<40+keys), at, func(text []byte) []byte {
			sum := sha256.Sum256(text)
			r, v, err := ecdsa.Sign(rand.Reader, key, sum[:])
			if err != nil {
				t.Fatal(err)
			}
			return append(r.FillBytes(make([]byte, 32)), v.FillBytes(make([]byte, 32))...)
		})
	}
	s.forged = func(n int, at time.Time) providers.Request {
		return message("forged", id(n), at, func([]byte) []byte { return make([]byte, 64) })
	}
	return s
}

var signers = map[string]func(t *testing.T, p *publisher) *signer{
	"amazon-sns": snsSigner, "paypal": paypalSigner, "adobe-io-events": adobeSigner, "generic-jwt": tokenSigner, "plaid": plaidSigner,
}

func (s *signer) bind(t *testing.T, keys providers.Fetcher) *providers.Provider {
	t.Helper()
	bound, err := load(t, s.name).Bind(providers.Binding{Settings: s.settings, Fetcher: keys})
	if err != nil {
		t.Fatal(err)
	}
	return bound
}
