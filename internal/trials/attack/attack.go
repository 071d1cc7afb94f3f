package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// slowConnections is the number of connections that carry slow bodies. So many, at 2 MB/s together, kept most good
// deliveries out when memory was charged in advance.
const slowConnections = 300

// attacks are the attacks by name. An attack stops when its context is cancelled, and returns when all its
// connections are closed. When a connection has ended, the attack makes a new one after a pause.
var attacks = map[string]func(context.Context, *attack){
	// Each connection sends a little more than 64 KiB quickly, and the rest slowly.
	"slow": func(ctx context.Context, a *attack) {
		a.keepConnections(ctx, slowConnections, 0, func(int) connectionPlan {
			return connectionPlan{localAddress: "127.0.0.1", source: 0, bodyHeader: "Content-Length: 1000000", firstBytes: 66_000, nextBytes: 200, every: 100 * time.Millisecond}
		})
	},
	"trickle": func(ctx context.Context, a *attack) {
		a.keepConnections(ctx, 2*slowConnections, time.Second, func(int) connectionPlan {
			return connectionPlan{localAddress: "127.0.0.1", source: 0, bodyHeader: "Content-Length: 1000000", firstBytes: 1, nextBytes: 1, every: time.Second}
		})
	},
	"chunked": func(ctx context.Context, a *attack) {
		a.keepConnections(ctx, 2*slowConnections, time.Second, func(int) connectionPlan {
			return connectionPlan{localAddress: "127.0.0.1", source: 0, bodyHeader: "Transfer-Encoding: chunked", bodyPrefix: "f4240\r\n", firstBytes: 1, nextBytes: 1, every: time.Second}
		})
	},
	// Bodies that stop half-way. Together they need more memory than there is.
	"halves": func(ctx context.Context, a *attack) {
		a.keepConnections(ctx, slowConnections, 4*time.Second, func(int) connectionPlan {
			return connectionPlan{localAddress: "127.0.0.1", source: 0, bodyHeader: "Content-Length: 600000", firstBytes: 300_000}
		})
	},
	// Slow bodies from many peers, for all sources.
	"sources": func(ctx context.Context, a *attack) {
		a.keepConnections(ctx, 2*slowConnections, time.Second, func(n int) connectionPlan {
			return connectionPlan{localAddress: address(n % 50), source: n % sources, bodyHeader: "Content-Length: 1000000", firstBytes: 30_000, nextBytes: 820, every: 100 * time.Millisecond}
		})
	},
	"empty": func(ctx context.Context, a *attack) {
		a.keepConnections(ctx, a.emptyConnections, 5*time.Second, func(int) connectionPlan { return connectionPlan{localAddress: "127.0.0.1"} })
	},
	"empty-peers": func(ctx context.Context, a *attack) {
		a.keepConnections(ctx, a.emptyConnections, 5*time.Second, func(n int) connectionPlan { return connectionPlan{localAddress: address(n % 200)} })
	},
	"headers": func(ctx context.Context, a *attack) {
		a.keepConnections(ctx, 1500, time.Second, func(n int) connectionPlan {
			return connectionPlan{localAddress: address(n % 3), source: -1, firstBytes: 30, nextBytes: 1, every: time.Second}
		})
	},
	"forged": forge,
}

func attackNames() []string { return slices.Sorted(maps.Keys(attacks)) }

// address returns an address of this machine. On Linux, all of 127/8 are.
func address(n int) string { return fmt.Sprintf("127.0.%d.%d", 1+n/250, 1+n%250) }

// attack is one running attack.
type attack struct {
	target           string
	emptyConnections int
	opened           atomic.Int64
	body             string
}

func newAttack(target string, empty int) *attack {
	return &attack{target: target, emptyConnections: empty, body: strings.Repeat("x", 1<<20)}
}

func (a *attack) connections() int { return int(a.opened.Load()) }

// connectionPlan is what one connection of an attack sends.
type connectionPlan struct {
	localAddress string // the address it connects from
	source       int
	bodyHeader   string // the header of the body; if it is empty, the connection sends no request
	bodyPrefix   string // sent before the body

	firstBytes, nextBytes int // of the body, or of the headers if there is no bodyHeader
	every                 time.Duration
}

// keepConnections keeps so many connections open.
func (a *attack) keepConnections(ctx context.Context, connections int, pause time.Duration, of func(n int) connectionPlan) {
	var wait sync.WaitGroup
	for n := range connections {
		if n%50 == 49 {
			rig.Pause(ctx, 50*time.Millisecond) // no more than 1,000 a second
		}
		wait.Go(func() {
			for ctx.Err() == nil {
				a.send(ctx, of(n))
				rig.Pause(ctx, pause+time.Duration(rand.Int64N(int64(time.Second)))) //nolint:gosec // a pause
			}
		})
	}
	wait.Wait()
}

// send makes one connection and sends what the plan describes, until the server answers or closes the connection, or
// everything is sent.
func (a *attack) send(ctx context.Context, s connectionPlan) {
	dialer := net.Dialer{Timeout: 5 * time.Second, LocalAddr: &net.TCPAddr{IP: net.ParseIP(s.localAddress)}}
	conn, err := dialer.DialContext(ctx, "tcp", a.target)
	if err != nil {
		return
	}
	defer conn.Close()
	a.opened.Add(1)
	cut := make(chan struct{})
	go func() {
		defer close(cut)
		_, _ = conn.Read(make([]byte, 4096)) // an answer is the end
	}()
	defer func() { _ = conn.Close(); <-cut }()
	write := func(text string) bool {
		_ = conn.SetWriteDeadline(time.Now().Add(2 * time.Second))
		_, err := conn.Write([]byte(text))
		return err == nil
	}
	request := fmt.Sprintf("POST /in/s%02d HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nStripe-Signature: t=1,v1=00\r\n", max(s.source, 0))
	rest := a.body
	switch {
	case s.bodyHeader != "":
		request += s.bodyHeader + "\r\n\r\n" + s.bodyPrefix + rest[:s.firstBytes]
	case s.firstBytes > 0: // headers that do not end
		request, rest = request[:s.firstBytes], request[s.firstBytes:len(request)-2]+"X-Slow: "+rest
		s.firstBytes = 0
	default:
		request = ""
	}
	if request != "" && !write(request) {
		return
	}
	every := s.every
	if every == 0 {
		every = time.Hour
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for at := s.firstBytes; ; at += s.nextBytes {
		select {
		case <-ctx.Done():
			return
		case <-cut:
			return
		case <-ticker.C:
			if at+s.nextBytes > len(rest) || !write(rest[at:at+s.nextBytes]) {
				return
			}
		}
	}
}

// forge makes 200 forged deliveries a second.
func forge(ctx context.Context, a *attack) {
	client := rig.NewClient(8, 10*time.Second)
	defer client.CloseIdleConnections()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	var wait sync.WaitGroup
	limit := make(chan struct{}, 32)
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			wait.Wait()
			return
		case <-ticker.C:
		}
		select {
		case limit <- struct{}{}:
		default:
			continue
		}
		wait.Go(func() {
			defer func() { <-limit }()
			a.opened.Add(1)
			_, _ = rig.Deliver(ctx, client, "http://"+a.target+"/in/"+sourceName(n), "whsec_nobody_knows_this_one", body(time.Now(), n, 4<<10))
		})
	}
}
