package listingtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// These are the values with which Apple's server accepts a token.
const (
	appleKeyID  = "2X9R4HXF34"
	appleIssuer = "57246542-96fe-1a63-e053-0824d011072a"
	appleBundle = "com.example.app"
)

func apple() Sender {
	key, other, chain := newKey(), newKey(), newChain()
	return Sender{
		Provider: "apple-app-store", Secretless: true,
		Params:     map[string]string{"issuer_id": appleIssuer, "key_id": appleKeyID, "bundle_id": appleBundle},
		Settings:   map[string]string{"bundle_id": appleBundle, "roots": chain.root},
		Credential: pemOf(key), Other: pemOf(other),
		accepts: func(r *http.Request) bool { return appleAccepts(r, &key.PublicKey) },
		serve:   chain.history,
	}
}

// appleAccepts checks a token as
// https://developer.apple.com/documentation/appstoreserverapi/generating-json-web-tokens-for-api-requests
// describes it.
func appleAccepts(r *http.Request, key *ecdsa.PublicKey) bool {
	text, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	token, err := jose.ParseSignedCompact(text, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil || token.Signatures[0].Header.KeyID != appleKeyID || token.Signatures[0].Header.ExtraHeaders["typ"] != "JWT" {
		return false
	}
	payload, err := token.Verify(key)
	var claims struct {
		Iss, Aud, Bid string
		Iat, Exp      int64
	}
	return err == nil && json.Unmarshal(payload, &claims) == nil && claims.Iss == appleIssuer && claims.Aud == "appstoreconnect-v1" && claims.Bid == appleBundle &&
		claims.Iat > 0 && claims.Exp > claims.Iat && claims.Exp-claims.Iat <= 3600
}

// appleChain signs notifications.
type appleChain struct {
	root string // in PEM
	x5c  []string
	key  *ecdsa.PrivateKey
}

// history answers as https://developer.apple.com/documentation/appstoreserverapi/get-notification-history
// describes it.
func (c *appleChain) history(a *API, w http.ResponseWriter, r *http.Request) {
	var asked struct{ StartDate, EndDate int64 }
	err := json.NewDecoder(r.Body).Decode(&asked)
	if refused(w, err == nil && r.Method == http.MethodPost && r.URL.Path == "/inApps/v1/notifications/history" && asked.StartDate > 1e12 && asked.EndDate > asked.StartDate) {
		return
	}
	page, more := a.page(a.events, time.UnixMilli(asked.StartDate), time.UnixMilli(asked.EndDate), r.URL.Query().Get("paginationToken"))
	out := object{"hasMore": more, "notificationHistory": each(page, func(e Event) any {
		return object{"sendAttempts": []object{{"attemptDate": e.Created.UnixMilli(), "sendAttemptResult": "NO_RESPONSE"}}, "signedPayload": c.signed(e)}
	})}
	if len(page) > 0 {
		out["paginationToken"] = page[len(page)-1].ID
	}
	answer(w, out)
}

func (c *appleChain) signed(e Event) string {
	payload, err := json.Marshal(object{
		"notificationType": "DID_RENEW", "notificationUUID": e.ID, "version": "2.0", "signedDate": e.Created.UnixMilli(),
		"data": object{"bundleId": appleBundle, "environment": "Production"},
	})
	must(err)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: c.key}, (&jose.SignerOptions{}).WithHeader("x5c", c.x5c))
	must(err)
	token, err := signer.Sign(payload)
	must(err)
	text, err := token.CompactSerialize()
	must(err)
	return text
}

// newChain makes a root, and the two certificates with Apple's extensions below it.
func newChain() *appleChain {
	rootKey, middleKey, leafKey := newKey(), newKey(), newKey()
	root := certificate(&x509.Certificate{IsCA: true}, nil, rootKey, rootKey)
	middle := certificate(&x509.Certificate{IsCA: true, ExtraExtensions: receipt(6, 2, 1)}, root, middleKey, rootKey)
	leaf := certificate(&x509.Certificate{ExtraExtensions: receipt(6, 11, 1)}, middle, leafKey, middleKey)
	out := &appleChain{root: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Raw})), key: leafKey}
	for _, c := range []*x509.Certificate{leaf, middle, root} {
		out.x5c = append(out.x5c, base64.StdEncoding.EncodeToString(c.Raw))
	}
	return out
}

// receipt is the extension of a certificate that signs for the App Store.
func receipt(last ...int) []pkix.Extension {
	return []pkix.Extension{{Id: append(asn1.ObjectIdentifier{1, 2, 840, 113635, 100}, last...), Value: asn1.NullBytes}}
}

func certificate(template, parent *x509.Certificate, key, signer *ecdsa.PrivateKey) *x509.Certificate {
	template.SerialNumber, template.Subject = big.NewInt(1), pkix.Name{CommonName: "test"}
	template.NotBefore, template.NotAfter = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2060, 1, 1, 0, 0, 0, 0, time.UTC)
	template.BasicConstraintsValid = true
	if template.IsCA {
		template.KeyUsage = x509.KeyUsageCertSign
	}
	if parent == nil {
		parent = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	must(err)
	out, err := x509.ParseCertificate(der)
	must(err)
	return out
}

func newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	return key
}

func pemOf(key *ecdsa.PrivateKey) string {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	must(err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// must panics on an error that no test can cause.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
