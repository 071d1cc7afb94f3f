package draft_test

import (
	"crypto/hmac"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog/catalogtest"
	"github.com/oncegate/oncegate/providers/draft"
	"github.com/oncegate/oncegate/providers/providertest"
)

const (
	plainSecret = "Zm9yIHRlc3RzIG9ubHksIG5vdGhpbmcgZWxzZQ=="
	content     = `{"event_id":"e-1","kind":"a.b","data":{"id":"o-1"},"at":"2026-11-20T12:00:00Z"}`
	address     = "https://hooks.example.com/in/x?tenant=7"
)

func sum(h func() hash.Hash, key []byte, message string) []byte {
	mac := hmac.New(h, key)
	mac.Write([]byte(message))
	return mac.Sum(nil)
}

// TestFormsOfSigning checks that the draft also finds signing methods that no provider of the
// catalogue uses. The test signs with the standard library only.
func TestFormsOfSigning(t *testing.T) {
	t.Parallel()
	const now = "1760000000"
	key := []byte(plainSecret)
	decoded, _ := base64.StdEncoding.DecodeString(plainSecret)
	digest := sha256.Sum256([]byte(content))
	hexDigest := hex.EncodeToString(digest[:])
	for name, test := range map[string]struct {
		header map[string]string
		secret string
		text   string
		covers string
	}{
		"upper-case hex":        {header: map[string]string{"X-Sig": strings.ToUpper(hex.EncodeToString(sum(sha256.New, key, content)))}, text: "in hex"},
		"prefix with slashes":   {header: map[string]string{"X-Sig": "1/SHA256/" + hex.EncodeToString(sum(sha256.New, key, content))}, text: `behind "1/SHA256/", in hex`},
		"in brackets":           {header: map[string]string{"X-Sig": "[" + hex.EncodeToString(sum(sha256.New, key, content)) + "]"}, text: `between "[" and "]", in hex`},
		"JSON array of one":     {header: map[string]string{"X-Sig": `["` + base64.StdEncoding.EncodeToString(sum(sha256.New, key, content)) + `"]`}, text: `between "[\"" and "\"]", in base64`},
		"prefix and brackets":   {header: map[string]string{"X-Ts": now, "X-Sig": "sha256=<" + hex.EncodeToString(sum(sha256.New, key, now+"."+content)) + ">"}, text: `between "sha256=<" and ">", in hex`},
		"version and brackets":  {header: map[string]string{"X-Sig": "v1=(" + hex.EncodeToString(sum(sha256.New, key, content)) + ")"}, text: `between "v1=(" and ")", in hex`},
		"slashes and brackets":  {header: map[string]string{"X-Sig": "1/SHA256/{" + hex.EncodeToString(sum(sha256.New, key, content)) + "}"}, text: `between "1/SHA256/{" and "}", in hex`},
		"padded base64url":      {header: map[string]string{"X-Sig": base64.URLEncoding.EncodeToString(sum(sha256.New, key, content+"?"))}, text: ""},
		"sha512 in base64":      {header: map[string]string{"X-Sig": "sha512=" + base64.StdEncoding.EncodeToString(sum(sha512.New, key, content))}, text: "HMAC-SHA512 of body"},
		"raw base64":            {header: map[string]string{"X-Sig": base64.RawStdEncoding.EncodeToString(sum(sha1.New, key, content))}, text: "HMAC-SHA1 of body"},
		"decoded key":           {header: map[string]string{"X-Sig": hex.EncodeToString(sum(sha256.New, decoded, content))}, text: "the secret is the base64 of"},
		"hex key":               {secret: "00112233445566778899aabbccddeeff", header: map[string]string{"X-Sig": hex.EncodeToString(sum(sha256.New, []byte("\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff"), content))}, text: "the secret is the hex of"},
		"prefixed key":          {secret: "whsec_" + plainSecret, header: map[string]string{"X-Sig": hex.EncodeToString(sum(sha256.New, decoded, content))}, text: "without its prefix"},
		"prefix as a part":      {secret: "whsec_" + plainSecret, header: map[string]string{"X-Sig": hex.EncodeToString(sum(sha256.New, []byte("whsec_"+plainSecret), content))}, text: "the secret as text"},
		"time after the body":   {header: map[string]string{"X-Ts": now, "X-Sig": hex.EncodeToString(sum(sha256.New, key, content+"|"+now))}, text: `body + "|" + time`},
		"time in milliseconds":  {header: map[string]string{"X-Ts": now + "000", "X-Sig": hex.EncodeToString(sum(sha256.New, key, now+"000\n"+content))}, text: `time + "\n" + body`},
		"time in ISO 8601":      {header: map[string]string{"X-Ts": "2025-10-09T08:53:20Z", "X-Sig": hex.EncodeToString(sum(sha256.New, key, "2025-10-09T08:53:20Z."+content))}, text: `time + "." + body`},
		"list with another tag": {header: map[string]string{"X-Sig": "ts=" + now + ";sig=" + hex.EncodeToString(sum(sha256.New, key, now+":"+content))}, text: `time + ":" + body`},
		"two signatures":        {header: map[string]string{"X-Sig": "t=" + now + ",v1=" + strings.Repeat("ab", 32) + ",v1=" + hex.EncodeToString(sum(sha256.New, key, now+"."+content))}, text: "as v1="},
		"id, time and body":     {header: map[string]string{"X-Event-Id": "e_1", "X-Ts": now, "X-Sig": base64.StdEncoding.EncodeToString(sum(sha256.New, key, "e_1."+now+"."+content))}, text: `X-Event-Id + "." + time + "." + body`},
		"nonce between":         {header: map[string]string{"X-Nonce": "n0nce", "X-Ts": now, "X-Sig": hex.EncodeToString(sum(sha256.New, key, now+"n0nce"+content))}, text: "time + X-Nonce + body"},
		"address and body":      {header: map[string]string{"X-Sig": hex.EncodeToString(sum(sha256.New, key, address+content))}, text: "url + body"},
		"method, path, time":    {header: map[string]string{"X-Ts": now, "X-Sig": hex.EncodeToString(sum(sha256.New, key, "POST\n/in/x?tenant=7\n"+now+"\n"+content))}, text: `method + "\n" + path + "?" + query + "\n" + time + "\n" + body`},
		"digest of the body":    {header: map[string]string{"X-Ts": now, "X-Sig": hex.EncodeToString(sum(sha256.New, key, now+"."+hexDigest))}, text: "body-sha256-hex"},
		"version before":        {header: map[string]string{"X-Ts": now, "X-Sig": "v0=" + hex.EncodeToString(sum(sha256.New, key, "v0:"+now+":"+content))}, text: `"v0:" + time`},
		"two headers":           {header: map[string]string{"X-Hook-Topic": "a.b", "X-Hook-Shop": "s1", "X-Sig": hex.EncodeToString(sum(sha256.New, key, "a.b|s1|"+content))}, text: "X-Hook-Topic"},
		"plain digest":          {header: map[string]string{"X-Sig": hexOf(plainSecret + content)}, text: "SHA256 of secret + body"},
		"token in own header":   {header: map[string]string{"X-Acme-Token": plainSecret}, text: "the secret itself in header X-Acme-Token", covers: "origin"},
		"bearer token":          {header: map[string]string{"Authorization": "Bearer " + plainSecret}, text: "bearer token", covers: "origin"},
		"basic authentication":  {secret: "me:" + plainSecret, header: map[string]string{"Authorization": "Basic " + base64.StdEncoding.EncodeToString([]byte("me:"+plainSecret))}, text: "basic authentication", covers: "origin"},
		"token of JWT":          {header: map[string]string{"X-Jwt": jwt(plainSecret, `{"iat":1760000000,"body":"`+hexDigest+`"}`)}, text: "token (JWT, HS256)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.secret == "" {
				test.secret = plainSecret
			}
			body := content
			if name == "padded base64url" {
				body += "?" // with this body the signature holds - or _
			}
			v := providertest.Vector{Method: http.MethodPost, URL: address, Body: body, Secret: test.secret, Headers: map[string]string{"Content-Type": "application/json"}, Now: 1760000000}
			maps.Copy(v.Headers, test.header)
			r, err := draft.Make(v.Request(), draft.Options{Name: "x", Secret: []byte(test.secret)})
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Fits) == 0 {
				t.Fatalf("nothing fits: %+v", r.Tried)
			}
			if err := refuses(r, &v); err != nil {
				t.Error(err)
			}
			covers := test.covers
			if covers == "" {
				covers = "body"
			}
			if r.Fits[0].Covers != covers || !strings.Contains(r.Fits[0].Text, test.text) {
				t.Errorf("%s, covers %s; want %q, covers %s", r.Fits[0].Text, r.Fits[0].Covers, test.text, covers)
			}
		})
	}
}

func hexOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func jwt(secret, claims string) string {
	encode := base64.RawURLEncoding.EncodeToString
	text := encode([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + encode([]byte(claims))
	return text + "." + encode(sum(sha256.New, []byte(secret), text))
}

// A signature that no provider can be written for is named as what it is.
func TestMD5IsNamed(t *testing.T) {
	t.Parallel()
	req := request(content, map[string]string{"X-Sig": hex.EncodeToString(sum(md5.New, []byte(plainSecret), content))})
	r, err := draft.Make(req, draft.Options{Secret: []byte(plainSecret)})
	if err != nil || len(r.Fits) > 0 || len(r.Near) != 1 || !strings.Contains(r.Near[0], "HMAC-MD5 of body") {
		t.Errorf("%v: fits %v, near %q", err, r.Fits, r.Near)
	}
}

// TestSearchIsBounded checks that the search ends when Continue returns false, and reports that.
func TestSearchIsBounded(t *testing.T) {
	t.Parallel()
	req := request(content, map[string]string{"X-Sig": strings.Repeat("ab", 32), "X-Ts": "1760000000", "X-Id": "a-1"})
	r, err := draft.Make(req, draft.Options{Secret: []byte(plainSecret), Continue: func(tried, _ int64) bool { return tried < 100 }})
	if err != nil || !r.Tried.Cut || r.Tried.Combinations > 5000 || len(r.Fits) > 0 {
		t.Errorf("%v: %+v", err, r.Tried)
	}
	if _, err := draft.Make(req, draft.Options{Secret: []byte(" \n")}); err == nil {
		t.Error("an empty secret was taken")
	}
}

// TestGuessesOfIdentity checks that a member that is only named id is not used as the event id. A
// digest loses no event.
func TestGuessesOfIdentity(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		body   string
		header map[string]string
		mode   string
		where  string
	}{
		"an event's id":          {body: `{"eventId":"0b1c5a","type":"a"}`, mode: "id", where: "JSON eventId"},
		"an id with a prefix":    {body: `{"id":"evt_1ABCDEF","type":"a.b","data":{"id":"o"}}`, mode: "id", where: "JSON id"},
		"a short event's id":     {body: `{"event_id":7,"type":"a"}`, mode: "id", where: "JSON event_id"},
		"a list of events":       {body: `[{"event_id":"a1","type":"a"},{"event_id":"a2","type":"a"}]`, mode: "id", where: "JSON event_id"},
		"an envelope":            {body: `{"id":"5bd0a6f2c3d94e3f","type":"a.b","data":{"id":"o-1"}}`, mode: "id", where: "JSON id"},
		"the object itself":      {body: `{"id":"5bd0a6f2c3d94e3f","status":"paid","created_at":"2026-11-20T12:00:00Z"}`, mode: "digest", where: "JSON id"},
		"the subscription":       {body: `{"id":"5bd0a6f2c3d94e3f","targetUrl":"https://h","event":"created","data":{"id":"o-1","created":"2026-11-20T12:00:00Z"}}`, mode: "digest", where: "JSON id"},
		"the object's id twice":  {body: `{"id":"5bd0a6f2c3d94e3f","type":"a.b","at":1760000000,"data":{"id":"5bd0a6f2c3d94e3f"}}`, mode: "digest", where: "JSON id"},
		"the id of the meta":     {body: `{"meta":{"id":7771,"action":"updated","timestamp":1760000000},"current":{"id":7771}}`, mode: "digest"},
		"a header, not signed":   {body: `{"a":1,"at":1760000000}`, header: map[string]string{"X-Acme-Delivery": "d-1234"}, mode: "digest", where: "header X-Acme-Delivery"},
		"nothing tells it apart": {body: `{"flag":true}`, mode: "level"},
		"a flag at some time":    {body: `{"flag":true,"list":[{"at":"2026-11-20T12:00:00Z"}]}`, mode: "digest"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			header := map[string]string{"X-Sig": hex.EncodeToString(sum(sha256.New, []byte(plainSecret), test.body))}
			maps.Copy(header, test.header)
			r, err := draft.Make(request(test.body, header), draft.Options{Secret: []byte(plainSecret)})
			if err != nil || r.Provider == nil {
				t.Fatalf("%v: %+v", err, r)
			}
			if mode := r.Provider.Spec().Identity.Mode; mode != test.mode || r.Guesses[0].Where != test.where {
				t.Errorf("mode %s of %+v, want %s of %q", mode, r.Guesses[0], test.mode, test.where)
			}
		})
	}
}

func request(body string, header map[string]string) *providers.Request {
	req := &providers.Request{Method: http.MethodPost, URL: address, Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(body), ReceivedAt: time.Unix(1760000000, 0)}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	return req
}

// TestStandardsAreNamed checks that the draft recognises a standard of the catalogue, and that it
// explains how to write a secret that is right but written differently.
func TestStandardsAreNamed(t *testing.T) {
	t.Parallel()
	all := catalogtest.Load(t)
	secret := "whsec_" + plainSecret
	standard := request(content, nil)
	if err := all["standard-webhooks"].Sign(standard, providers.Secret{Value: []byte(secret)}, "msg_1"); err != nil {
		t.Fatal(err)
	}
	r, err := draft.Make(standard, draft.Options{Secret: []byte(secret), Catalog: all})
	if err != nil || len(r.Looks) != 1 || r.Looks[0].Name != "standard-webhooks" || !r.Looks[0].Verified || len(r.Fits) != 1 || !r.Fits[0].SignsTime {
		t.Errorf("%v: looks %+v, fits %+v", err, r.Looks, r.Fits)
	}

	message := request(content, nil)
	if err := all["rfc9421"].Sign(message, providers.Secret{Value: []byte("my-key:hmac-sha256=" + plainSecret)}, ""); err != nil {
		t.Fatal(err)
	}
	r, err = draft.Make(message, draft.Options{Secret: []byte("my-key:hmac-sha256=" + plainSecret), Catalog: all})
	if err != nil || len(r.Fits) != 1 || r.Fits[0].Covers != "body" {
		t.Errorf("%v: fits %+v", err, r.Fits)
	}
	r, err = draft.Make(message, draft.Options{Secret: []byte(plainSecret), Catalog: all})
	if err != nil || len(r.Fits) > 0 || len(r.Near) != 1 || !strings.Contains(r.Near[0], "write it as KEYID:hmac-sha256=KEY") {
		t.Errorf("%v: fits %+v, near %q", err, r.Fits, r.Near)
	}

	token := jwt(plainSecret, `{"iat":1760000000}`)
	r, err = draft.Make(request(`{"signedPayload":"`+token+`"}`, nil), draft.Options{Secret: []byte(plainSecret), Catalog: all})
	if err != nil || len(r.Fits) > 0 || len(r.Near) != 1 || !strings.Contains(r.Near[0], "JSON signedPayload is signed with the secret") {
		t.Errorf("%v: fits %+v, near %q", err, r.Fits, r.Near)
	}
}

// A header that is present several times, one header for each key, and groups of
// signatures are read as what they are.
func TestSeveralSignatures(t *testing.T) {
	t.Parallel()
	right := hex.EncodeToString(sum(sha256.New, []byte(plainSecret), content))
	wrong := strings.Repeat("ab", 32)
	timed := hex.EncodeToString(sum(sha256.New, []byte(plainSecret), "1760000000."+content))
	for name, header := range map[string]http.Header{
		"a header twice":        {"X-Sig": {wrong, right}},
		"a header for each key": {"X-Sig-1": {wrong}, "X-Sig-2": {right}},
		"groups":                {"X-Sig": {"t=1760000000,v1=" + wrong + " t=1760000000,v1=" + timed}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := request(content, nil)
			maps.Copy(req.Header, header)
			r, err := draft.Make(req, draft.Options{Secret: []byte(plainSecret)})
			if err != nil || len(r.Fits) == 0 || r.Fits[0].Covers != "body" {
				t.Fatalf("%v: %+v", err, r)
			}
		})
	}
}
