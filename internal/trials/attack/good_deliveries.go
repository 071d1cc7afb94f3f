package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// senders is the largest number of good deliveries at the same time.
const senders = 64

// deliver makes good deliveries at a rate: most of 2 KB, one in twenty of 200 KB, half of them over connections of
// their own. A delivery starts when it is due, or later if all senders are busy; its latency counts from when it was due.
func (w *world) deliver(ctx context.Context, rate int, length time.Duration) (measurement, error) {
	kept := rig.NewClient(senders, 15*time.Second)
	fresh := &http.Client{Timeout: 15 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	defer kept.CloseIdleConnections()
	var mu sync.Mutex
	var m measurement
	pace := rig.Pace{PerSecond: rate, Length: length, Senders: senders}
	pace.Run(ctx, time.Now(), func(n int, due time.Time) {
		client := kept
		if n%2 == 1 {
			client = fresh
		}
		size := 2 << 10
		if n%20 == 10 {
			size = 200 << 10
		}
		status, err := rig.Deliver(ctx, client, w.node.SourceURL(sourceName(n)), secret, body(due, n, size))
		took := time.Since(due)
		mu.Lock()
		defer mu.Unlock()
		m.sent++
		if err != nil || status/100 != 2 {
			if m.failed++; m.firstError == "" {
				m.firstError = fmt.Sprintf("status %d, %v", status, err)
			}
		}
		m.latencies = append(m.latencies, took)
	})
	return m, context.Cause(ctx)
}

// body returns the body of a good event, a new one each time.
func body(at time.Time, n, size int) []byte {
	text := fmt.Sprintf(`{"id":"evt_%d_%d","object":"event","type":"invoice.paid","created":%d,"data":{"object":{"id":"in_%d","text":"`, at.UnixNano(), n, at.Unix(), n)
	return []byte(text + strings.Repeat("x", max(size-len(text)-4, 0)) + `"}}}`)
}
