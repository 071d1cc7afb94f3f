package proxies

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// slowly is a body that arrives in pieces.
type slowly struct {
	ctx   context.Context
	from  io.Reader
	piece int
	pause time.Duration
}

// Read implements [io.Reader].
func (s *slowly) Read(b []byte) (int, error) {
	if !rig.Pause(s.ctx, s.pause) {
		return 0, s.ctx.Err()
	}
	return s.from.Read(b[:min(len(b), s.piece)])
}

// stalledBodies is how many bodies stop half-way at the same time.
const stalledBodies = 50

// probeSlow sends a slow body that is fast enough, and bodies that stop half-way, while a good delivery arrives.
func (c *campaign) probeSlow(ctx context.Context) error {
	slow := c.pushOnce(ctx, "slow", push(20<<10), func(r *request) { r.body = &slowly{ctx, r.body, 1 << 10, 200 * time.Millisecond} })
	c.note("a body of 20 KB that takes 4 s", "200", slow.String())
	var mu sync.Mutex
	ends := map[string]int{}
	var all sync.WaitGroup
	for range stalledBodies {
		all.Go(func() {
			end := c.stall(ctx)
			mu.Lock()
			ends[end]++
			mu.Unlock()
		})
	}
	rig.Pause(ctx, 2*time.Second) // the stalled bodies have begun
	during := c.pushOnce(ctx, "during stalled bodies", push(1000), nil)
	all.Wait()
	c.note("a push while bodies are stalled", "200", during.String())
	c.note(fmt.Sprintf("%d bodies that stop half-way", stalledBodies), fmt.Sprint(map[string]int{given: stalledBodies}), fmt.Sprint(ends))
	return ctx.Err()
}

// given names the end of a body that stopped: an answer of 408 by Oncegate, or a closed connection by nginx.
const given = "408 or closed"

// stall sends a part of a body and waits for the end.
func (c *campaign) stall(ctx context.Context) string {
	plain, err := dialer().DialContext(ctx, "tcp", "127.0.0.1:"+c.front)
	if err != nil {
		return err.Error()
	}
	conn := tls.Client(plain, &tls.Config{RootCAs: c.roots, ServerName: "localhost", MinVersion: tls.VersionTLS12})
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(45 * time.Second)); err != nil {
		return err.Error()
	}
	body := push(100 << 10)
	var head strings.Builder
	fmt.Fprintf(&head, "POST /in/push HTTP/1.1\r\nHost: localhost:%s\r\nContent-Length: %d\r\n", c.front, len(body))
	for name, values := range pushHeader(secret, "stalled", body) {
		fmt.Fprintf(&head, "%s: %s\r\n", name, values[0])
	}
	if _, err := io.WriteString(conn, head.String()+"\r\n"+string(body[:1000])); err != nil {
		return err.Error()
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) {
		return given
	}
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusRequestTimeout {
		return given
	}
	return fmt.Sprint(resp.StatusCode)
}
