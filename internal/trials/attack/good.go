package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/oncegate/oncegate/internal/trials/rig"
)

// senders is how many good deliveries are under way at once at most.
const senders = 64

// deliver makes good deliveries at a rate: most of 2 KB, one in twenty of 200 KB, half of
// them by connections of their own. What is due is delivered at its time, however long
// others take, and its latency counts from then.
func (w *world) deliver(ctx context.Context, rate int, length time.Duration) (measured, error) {
	kept := &http.Client{Timeout: 15 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: senders}}
	fresh := &http.Client{Timeout: 15 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	defer kept.CloseIdleConnections()
	type task struct {
		n   int
		due time.Time
	}
	var mu sync.Mutex
	var m measured
	work := make(chan task, rate*int(length.Seconds()+1))
	var wait sync.WaitGroup
	for range senders {
		wait.Go(func() {
			for t := range work {
				client := kept
				if t.n%2 == 1 {
					client = fresh
				}
				size := 2 << 10
				if t.n%20 == 10 {
					size = 200 << 10
				}
				status, err := rig.Deliver(ctx, client, w.url(t.n%sources), secret, body(t.due, t.n, size))
				took := time.Since(t.due)
				mu.Lock()
				m.sent++
				if err != nil || status/100 != 2 {
					if m.failed++; m.first == "" {
						m.first = fmt.Sprintf("status %d, %v", status, err)
					}
				}
				m.latency = append(m.latency, took)
				mu.Unlock()
			}
		})
	}
	began := time.Now()
	ticker := time.NewTicker(time.Second / time.Duration(rate))
	defer ticker.Stop()
	for n := 0; n < int(length.Seconds()*float64(rate)) && ctx.Err() == nil; {
		due := began.Add(time.Duration(n) * time.Second / time.Duration(rate))
		if time.Until(due) <= 0 {
			work <- task{n, due}
			n++
			continue
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
	close(work)
	wait.Wait()
	return m, context.Cause(ctx)
}

// body is that of a good event, a new one each time.
func body(at time.Time, n, size int) []byte {
	text := fmt.Sprintf(`{"id":"evt_%d_%d","object":"event","type":"invoice.paid","created":%d,"data":{"object":{"id":"in_%d","text":"`, at.UnixNano(), n, at.Unix(), n)
	return []byte(text + strings.Repeat("x", max(size-len(text)-4, 0)) + `"}}}`)
}
