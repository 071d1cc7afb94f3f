package proxies

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"syscall"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// push is the body of a push of about so many bytes. It has white space and characters that a proxy that parsed it would write
// in another way.
func push(size int) []byte {
	text := "{ \"ref\" : \"refs/heads/größe\",\r\n\t\"commits\": [], \"number\": 1.0e2, \"text\": \""
	return []byte(text + strings.Repeat("x", max(size-len(text)-4, 0)) + "\" }\n")
}

func pushHeader(key, id string, body []byte) http.Header {
	return http.Header{
		"Content-Type": {"application/json"}, "X-Github-Delivery": {id}, "X-Github-Event": {"push"},
		"X-Hub-Signature-256": {rig.GitHubSignature(key, body)},
	}
}

// probe makes the deliveries that proxies are known to break, and asks the questions.
func (c *campaign) probe(ctx context.Context) error {
	for _, part := range []func(context.Context) error{
		c.probeBodies, c.probeSlow, c.probeAddresses, c.probeForgeries, c.probePrivate, c.probeAnswers, c.probeDoctor,
	} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// note records what a probe got.
func (c *campaign) note(name, want, got string) {
	c.Progress("%s: %s", name, got)
	c.probes = append(c.probes, Probe{Name: name, Want: want, Got: got})
}

// pushOnce sends a push once, and records it as sent.
func (c *campaign) pushOnce(ctx context.Context, id string, body []byte, change func(*request)) answer {
	r := request{method: http.MethodPost, url: c.url() + "/in/push", header: pushHeader(secret, id, body), body: bytes.NewReader(body), length: int64(len(body))}
	if change != nil {
		change(&r)
	}
	a := send(ctx, c.newClient(false), r)
	sent := &Delivery{SHA: sha256.Sum256(body)}
	sent.count(a)
	c.deliveries[id] = sent
	return a
}

// probeBodies tries large bodies, bodies in chunks, a large header, and the request to wait before the body.
func (c *campaign) probeBodies(ctx context.Context) error {
	chunked := func(r *request) { r.body, r.length = io.MultiReader(r.body), -1 }
	const mb = 1 << 20
	for _, p := range []struct {
		name   string
		size   int
		change func(*request)
	}{
		{"a push of 3 MB", 3 * mb, nil},
		{"a push of 24 MB", 24 * mb, nil},
		{"a push of 3 MB in chunks", 3 * mb, chunked},
		{"a push that waits for 100 Continue", 2 * mb, func(r *request) { r.header.Set("Expect", "100-continue") }},
		{"a push with a header of 12 KB", 1000, func(r *request) { r.header.Set("X-Large", strings.Repeat("x", 12<<10)) }},
	} {
		c.note(p.name, "200", c.pushOnce(ctx, p.name, push(p.size), p.change).String())
	}
	// These are not recorded as sent, because they must be refused.
	for name, size := range map[string]int{"a push larger than GitHub's limit": 26 * mb, "a push larger than every limit": 40 * mb} {
		for _, way := range []string{"", " in chunks"} {
			body := push(size)
			r := request{method: http.MethodPost, url: c.url() + "/in/push", header: pushHeader(secret, name+way, body), body: bytes.NewReader(body), length: int64(size)}
			if way != "" {
				chunked(&r)
			}
			c.note(name+way, tooLarge, endOfTooLarge(send(ctx, c.newClient(false), r)))
		}
	}
	return ctx.Err()
}

// tooLarge names the end of a body that is too large. The server answers 413 and closes the connection while the sender still writes, so
// the sender may see the reset before the answer.
const tooLarge = "413 or closed"

func endOfTooLarge(a answer) string {
	if a.status == http.StatusRequestEntityTooLarge || errors.Is(a.err, syscall.ECONNRESET) || errors.Is(a.err, syscall.EPIPE) {
		return tooLarge
	}
	return a.String()
}

// lineSeq iterates over the lines of a text without their ends.
func lineSeq(text string) iter.Seq[string] { return strings.SplitSeq(strings.TrimSpace(text), "\n") }

// statuses counts answers by their status, as one text.
func statuses(answers []answer) string {
	counts := map[string]int{}
	for _, a := range answers {
		counts[a.String()]++
	}
	return fmt.Sprint(counts)
}
