package app

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"time"

	"github.com/gowebpki/jcs"

	"github.com/oncegate/oncegate/inbox/replay"
	"github.com/oncegate/oncegate/internal/jsonspan"
	"github.com/oncegate/oncegate/jobs"
	"github.com/oncegate/oncegate/jobs/effect"
)

const (
	// maxShown bounds a value of a change in bytes, maxCanonical a canonical body.
	maxShown     = 200
	maxCanonical = 2 << 10
)

// recordedRequest returns the recorded side of a diff, from the rows.
func recordedRequest(event *judgedEvent, e *replay.RecordedEffect, was routeDescription) *replay.DiffSide {
	out := &replay.DiffSide{
		RouteVersion: e.RouteVersion, Target: was.Target, Kind: was.Kind, Method: was.Method, Address: was.Address, AddressSHA256: was.AddressSHA256,
		Key: e.Key, KeyHash: hex.EncodeToString(e.KeyHash), State: e.State, Reason: e.Reason, LastCode: e.LastCode, Attempts: e.Attempts,
	}
	if !e.FinishedAt.IsZero() {
		out.FinishedAt = &e.FinishedAt
	}
	fixed, _ := effect.ReadRendered(e.Rendered) // a request that cannot be read was not made
	if fixed.Address != "" {
		out.Address, out.AddressSHA256 = addressOf(fixed.Address)
	}
	body, made := sentBody(event, e, was)
	if made && body != nil {
		out.Body = describeBody(body, fixed.Body != nil, "stored")
	}
	return out
}

// todayRequest returns the side of a diff that today's configuration makes.
func todayRequest(event *judgedEvent, e *replay.RecordedEffect, route *judgedRoute, p *jobs.Preview) *replay.DiffSide {
	out := &replay.DiffSide{
		RouteVersion: int(route.inbox.Version), Target: route.today.Target, Kind: route.today.Kind, Method: route.today.Method,
		Address: route.today.Address, AddressSHA256: route.today.AddressSHA256, Key: e.Key,
	}
	if p.Request.Address != "" {
		out.Address, out.AddressSHA256 = route.shownAddress(p.Request.Address)
	}
	switch {
	case e.Key == "":
		out.Key = "a new one"
	case event.NewKey:
		out.Key = replay.FreshKey(e.Key, e.Version+1)
	}
	from := "stored"
	if p.Rendered {
		from = "rendered"
	}
	out.Body = describeBody(p.Request.Body, p.Rendered || p.Stored, from)
	return out
}

// shownHeaders returns a request's headers, without values that may be credentials and without the
// key, which the diff shows separately.
func shownHeaders(h http.Header, keyHeader string) map[string]string {
	if len(h) == 0 {
		return nil
	}
	h.Del(keyHeader)
	out := make(map[string]string, len(h))
	for name, values := range h {
		if len(values) == 0 {
			continue
		}
		out[name] = short([]byte(strings.Join(values, ", ")))
		if secretName(name) {
			out[name] = "<secret>"
		}
	}
	return out
}

func describeBody(content []byte, made bool, from string) *replay.DiffBody {
	sum := sha256.Sum256(content)
	if !made {
		from = "received"
	}
	return &replay.DiffBody{Bytes: len(content), SHA256: hex.EncodeToString(sum[:]), From: from}
}

// canonical adds the masked canonical form of a body, if it has one.
func canonical(b *replay.DiffBody, content []byte, redact redaction) {
	if b == nil {
		return
	}
	if form, err := jcs.Transform(content); err == nil {
		sum := sha256.Sum256(form)
		b.CanonicalSHA256 = hex.EncodeToString(sum[:])
	}
	if shown, ok := jsonspan.Mask(content, redact.hides); ok {
		b.Canonical = cutAt(shown, maxCanonical)
	}
}

// changes returns the differences between two bodies: by path if both are JSON, by member if both
// are mails, otherwise only that they differ, without content.
func changes(before, after []byte, redact redaction) []replay.Change {
	if found, ok := jsonspan.Changes(before, after, replay.MaxChanges, redact.hides); ok {
		out := make([]replay.Change, len(found))
		for i, c := range found {
			out[i] = replay.Change{Path: c.Path, Before: short(c.Before), After: short(c.After)}
		}
		return out
	}
	if out, ok := messageChanges(before, after); ok {
		return out
	}
	a, b := describeBody(before, false, ""), describeBody(after, false, "")
	return []replay.Change{{Path: "$", Before: "sha256:" + a.SHA256, After: "sha256:" + b.SHA256}}
}

func short(value []byte) string { return cutAt(value, maxShown) }

// cutAt shortens a text to limit bytes and makes it valid UTF-8.
func cutAt(value []byte, limit int) string {
	if len(value) <= limit {
		return strings.ToValidUTF8(string(value), "?")
	}
	return strings.ToValidUTF8(string(value[:limit]), "") + "..."
}

func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
