package forward_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/forward"
)

// A test event is sent as an attempt is: with the headers, the key and the signature that Standard Webhooks specifies
// (https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md).
func TestATestEventIsSentLikeAnAttempt(t *testing.T) {
	t.Parallel()
	var got *http.Request
	var body []byte
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
	}))
	defer server.Close()
	cfg := forward.Config{URL: "https://a.example/orders/{body.id}", Method: http.MethodPut, Sign: []string{"secret"}, KeyHeader: "X-Key", Headers: map[string]string{"X-Own": "yes"}}
	report, err := forward.SendTest(t.Context(), cfg, server.URL+"/test", []byte(`{"a": 1}`))
	if err != nil || !report.Passed() || len(report.Answers) != 1 {
		t.Fatalf("%+v, %v: want one answer, since the target does not deduplicate", report, err)
	}
	for name, want := range map[string]string{
		"X-Key": report.Key, "X-Own": "yes", "Oncegate-Test": report.ID, "Oncegate-Event-Id": report.ID, "Oncegate-Event-Type": "oncegate.test", "Oncegate-Source": "test",
		"Oncegate-Attempt": "1", "Content-Type": "application/json", "Webhook-Id": report.Key,
	} {
		if got.Header.Get(name) != want {
			t.Errorf("%s: %q, want %q", name, got.Header.Get(name), want)
		}
	}
	mac := hmac.New(sha256.New, []byte("secret"))
	mac.Write([]byte(report.Key + "." + got.Header.Get("Webhook-Timestamp") + `.{"a": 1}`))
	if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); got.Header.Get("Webhook-Signature") != want {
		t.Errorf("signature %q, want %q", got.Header.Get("Webhook-Signature"), want)
	}
	if got.Method != http.MethodPut || got.URL.Path != "/test" || !bytes.Equal(body, []byte(`{"a": 1}`)) {
		t.Errorf("%s %s %s", got.Method, got.URL.Path, body)
	}
	if cfg.Headers["Oncegate-Test"] != "" {
		t.Error("the configuration of the target has changed")
	}
}

// What a target does with the second request under one key is told apart.
func TestATestEventRepeatsTheKey(t *testing.T) {
	t.Parallel()
	type reply struct {
		status   int
		body     string
		replayed bool
	}
	for name, c := range map[string]struct {
		replies []reply
		repeat  forward.Repeat
		passed  bool
		asked   int
	}{
		"it says so":              {[]reply{{200, "made", false}, {200, "made", true}}, forward.RepeatRecognised, true, 2},
		"the same answer":         {[]reply{{201, "made 1", false}, {201, "made 1", false}}, forward.RepeatSame, true, 2},
		"another answer":          {[]reply{{201, "made 1", false}, {201, "made 2", false}}, forward.RepeatDifferent, false, 2},
		"another status":          {[]reply{{201, "made 1", false}, {200, "made 1", false}}, forward.RepeatDifferent, false, 2},
		"refused the second time": {[]reply{{200, "", false}, {409, "exists", false}}, forward.RepeatFailed, false, 2},
		"refused":                 {[]reply{{401, "bad signature", false}}, forward.RepeatNone, false, 1},
		"broken":                  {[]reply{{500, "", false}}, forward.RepeatNone, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			keys, asked := map[string]bool{}, 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				answer := c.replies[min(asked, len(c.replies)-1)]
				asked++
				keys[r.Header.Get("Idempotency-Key")] = true
				if answer.replayed {
					w.Header().Set("Idempotent-Replayed", "true")
				}
				w.WriteHeader(answer.status)
				_, _ = io.WriteString(w, answer.body)
			}))
			defer server.Close()
			report, err := forward.SendTest(t.Context(), forward.Config{URL: "https://a.example/", Idempotent: true}, server.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			if report.Repeat() != c.repeat || report.Passed() != c.passed || asked != c.asked || len(keys) != 1 {
				t.Errorf("repeat %q, passed %t, %d requests under %d keys; want %q, %t, %d under 1", report.Repeat(), report.Passed(), asked, len(keys), c.repeat, c.passed, c.asked)
			}
			if report.Answers[0].Excerpt != c.replies[0].body {
				t.Errorf("excerpt %q", report.Answers[0].Excerpt)
			}
		})
	}
}

// A target that cannot be reached is an answer too, and nothing that could do the work is ever sent.
func TestATestEventThatCannotBeSent(t *testing.T) {
	t.Parallel()
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	report, err := forward.SendTest(t.Context(), forward.Config{URL: "https://a.example/", Idempotent: true}, closed.URL, nil)
	if err != nil || report.Passed() || report.Answers[0].Outcome == effect.Done || report.Answers[0].Cause == "" {
		t.Errorf("%+v, %v", report, err)
	}
	worked := false
	work := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { worked = true }))
	defer work.Close()
	for address, want := range map[string]string{
		work.URL + "/pay":                           "the address that does the work",
		work.URL + "/pay/?":                         "the address that does the work",
		work.URL + "/{body.id}":                     "no values for expressions",
		strings.Replace(work.URL, "http", "ftp", 1): "http or https",
	} {
		if _, err := forward.SendTest(t.Context(), forward.Config{URL: work.URL + "/pay"}, address, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", address, err, want)
		}
	}
	if _, err := forward.SendTest(t.Context(), forward.Config{URL: work.URL + "/pay"}, work.URL+"/test", []byte("{")); err == nil || !strings.Contains(err.Error(), "not JSON") {
		t.Errorf("a body that is not JSON: %v", err)
	}
	if worked {
		t.Error("something was sent")
	}
}
