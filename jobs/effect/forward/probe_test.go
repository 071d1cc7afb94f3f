package forward_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/internal/egress/egresstest"
	"github.com/oncegate/oncegate/jobs/effect"
	"github.com/oncegate/oncegate/jobs/effect/effecttest"
	"github.com/oncegate/oncegate/jobs/effect/forward"
)

func TestProbe(t *testing.T) {
	t.Parallel()
	var asked string
	status := http.StatusOK
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Method + " " + r.RequestURI + " " + r.Header.Get("X-Own")
		w.Header().Set("Location", "http://127.0.0.1:1/")
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"status":%d,"asked":%q}`, status, r.Header.Get("X-Own"))
	}))
	t.Cleanup(target.Close)
	p, err := forward.NewProber(forward.ProberConfig{
		URL: target.URL + "/paid/{event_id}?key={key}", Headers: map[string]string{"X-Own": "yes"}, Done: []int{200, 302}, Absent: []int{404, 410},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	call := effecttest.Call(1)
	call.Key, call.Event.EventID = "og1_k", "../a b/c?d#e&f=%"
	for given, want := range map[int]effect.ProbeOutcome{
		200: effect.ProbeDone, 302: effect.ProbeDone, 404: effect.ProbeAbsent, 410: effect.ProbeAbsent,
		201: effect.ProbeUnknown, 301: effect.ProbeUnknown, 401: effect.ProbeUnknown, 429: effect.ProbeUnknown, 500: effect.ProbeUnknown,
	} {
		status = given
		answer := ""
		if want == effect.ProbeDone { // what it says of our own headers is not kept
			answer = fmt.Sprintf(`{"status":%d,"asked":"<header>"}`, given)
		}
		if got := p.Probe(t.Context(), call); got.Outcome != want || string(got.Stored) != answer {
			t.Errorf("%d: %s with the answer %s, want %s with %s", given, got.Outcome, got.Stored, want, answer)
		}
	}
	// Whatever an id holds, it stays one piece of the path.
	if want := "GET /paid/%2E%2E%2Fa%20b%2Fc%3Fd%23e%26f%3D%25?key=og1_k yes"; asked != want {
		t.Errorf("asked %q, want %q", asked, want)
	}
	target.Close()
	if got := p.Probe(t.Context(), call); got.Outcome != effect.ProbeUnknown || got.Code != "" || got.Stored != nil {
		t.Errorf("of a target that is gone: %+v", got)
	}
}

func TestProbeRefuses(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]forward.ProberConfig{
		"names no effect":       {URL: "https://bank.example/"},
		"host must be the same": {URL: "https://{key}.example/"},
		"want http or https":    {URL: "ftp://bank.example/{key}"},
		"cannot say both":       {URL: "https://bank.example/{key}", Done: []int{404}},
		"status 99 is none":     {URL: "https://bank.example/{key}", Done: []int{99}},
		"must not be negative":  {URL: "https://bank.example/{key}", Timeout: -1},
		"header \"a b\"":        {URL: "https://bank.example/{key}", Headers: map[string]string{"a b": "c"}},
	} {
		if _, err := forward.NewProber(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	// The metadata service of a cloud is asked by nobody.
	p, err := forward.NewProber(forward.ProberConfig{URL: "http://169.254.169.254/{key}", Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Probe(t.Context(), effecttest.Call(1)); got.Outcome != effect.ProbeUnknown {
		t.Errorf("%+v", got)
	}
	// Nor is one whose name has become private.
	target := effecttest.NewTarget(t, func(conn net.Conn, _ effecttest.Request) { effecttest.Reply(conn, "200 OK", nil, "") })
	rebound, err := forward.NewProber(forward.ProberConfig{
		URL:      strings.Replace(target.URL, "127.0.0.1", "target.example.", 1) + "/{key}",
		Resolver: egresstest.NewNameServer(t, "127.0.0.1").Resolver(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := rebound.Probe(t.Context(), effecttest.Call(1)); got.Outcome != effect.ProbeUnknown || len(target.Requests()) > 0 {
		t.Errorf("%+v, %d requests", got, len(target.Requests()))
	}
}

// A target may say that it knew the key; what it answered is then what an
// earlier attempt did.
func TestForwardHearsThatTheKeyIsKnown(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]bool{
		"Idempotent-Replayed: true": true, "idempotent-replayed: ?1": true, "Idempotent-Replayed: false": false,
		"Idempotent-Replayed: 0": false, "Idempotent-Replayed: ?0": false, "Idempotent-Replayed:": false, "X-Other: true": false,
	} {
		name, value, _ := strings.Cut(header, ":")
		target := effecttest.NewTarget(t, func(conn net.Conn, _ effecttest.Request) {
			effecttest.Reply(conn, "200 OK", http.Header{name: {strings.TrimSpace(value)}}, `{"charge":1}`)
		})
		got := newForward(t, forward.Config{URL: target.URL, Idempotent: true}).Send(t.Context(), effecttest.Call(2))
		if got.Outcome != effect.Done || got.Recognised != want || got.Stored != nil {
			t.Errorf("%s: %+v, want %t", header, got, want)
		}
		keeping := newForward(t, forward.Config{URL: target.URL, Idempotent: true, KeepReply: true, ReplayedHeader: "X-Other"})
		if got := keeping.Send(t.Context(), effecttest.Call(2)); string(got.Stored) != `{"charge":1}` || got.Recognised != (name == "X-Other") {
			t.Errorf("%s: %+v", header, got)
		}
	}
}
