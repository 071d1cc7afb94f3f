package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// workload is what a receiver has to handle.
type workload struct {
	connections int
	kind        kind
	bodySize    int
	warmUp      time.Duration
	measured    time.Duration

	// rate is the number of arrivals a second in an open loop. 0 is a closed loop, in which each connection sends as
	// soon as it has its answer.
	rate float64

	// spans keeps the time span of every delivery.
	spans bool
}

// openConnections is the number of connections of an open loop: so many that no delivery waits for a connection while
// the disk is slow. Senders may use any number.
const openConnections = 256

// timeSpan is one delivery, from its scheduled time to its acknowledgement.
type timeSpan struct {
	begun time.Time
	took  time.Duration
	event string
}

// kind says which deliveries are duplicates.
type kind string

const (
	onlyNew        kind = "unique"
	halfDuplicates kind = "half"
	duplicates     kind = "duplicates"
)

// openLoop is the end of the kind of a measurement in an open loop.
const openLoop = ", open loop"

// outcome is what the generator saw in the measured time.
type outcome struct {
	recorded, duplicate, failed int
	latencies                   []time.Duration // of 2xx, sorted
	elapsed                     time.Duration
	spans                       []timeSpan // if workload.spans is set
}

func (o *outcome) acked() int { return o.recorded + o.duplicate }

func (o *outcome) perSecond() float64 { return float64(o.acked()) / o.elapsed.Seconds() }

// quantile returns a quantile of the latencies, in milliseconds.
func (o *outcome) quantile(q float64) float64 {
	if len(o.latencies) == 0 {
		return 0
	}
	i := min(int(q*float64(len(o.latencies))), len(o.latencies)-1)
	return float64(o.latencies[i]) / float64(time.Millisecond)
}

// longest is the longest wait, in milliseconds, of the deliveries that were under way between two times.
func (o *outcome) longest(from, to time.Time) float64 {
	var most time.Duration
	for _, s := range o.spans {
		if s.begun.Before(to) && s.begun.Add(s.took).After(from) {
			most = max(most, s.took)
		}
	}
	return float64(most) / float64(time.Millisecond)
}

// generate sends w to address. begin and end are called at the beginning and the end of the measured time.
func generate(ctx context.Context, address string, run uint32, w workload, begin, end func()) (*outcome, error) {
	g := &generator{w: w, address: address, run: run, started: time.Now()}
	g.from, g.to = g.started.Add(w.warmUp), g.started.Add(w.warmUp+w.measured)
	ctx, cancel := context.WithDeadline(ctx, g.to.Add(10*time.Second))
	defer cancel()
	results := make([]*outcome, w.connections)
	errs := make([]error, w.connections)
	if w.rate > 0 {
		g.arrivals = make(chan time.Time, int(w.rate*(w.warmUp+w.measured).Seconds())+1)
		go g.pace()
	}
	var senders sync.WaitGroup
	for i := range w.connections {
		senders.Go(func() { results[i], errs[i] = g.send(ctx, i) })
	}
	waitUntil(g.from)
	begin()
	waitUntil(g.to)
	end()
	senders.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("sending: %w", err)
	}
	sum := &outcome{elapsed: w.measured}
	for _, r := range results {
		sum.recorded += r.recorded
		sum.duplicate += r.duplicate
		sum.failed += r.failed
		sum.latencies = append(sum.latencies, r.latencies...)
		sum.spans = append(sum.spans, r.spans...)
	}
	slices.Sort(sum.latencies)
	return sum, nil
}

// deliver sends n new events as fast as possible, and returns when all are acknowledged.
func deliver(ctx context.Context, address string, run uint32, n int) error {
	const connections = 64
	errs := make([]error, connections)
	var senders sync.WaitGroup
	for i := range connections {
		senders.Go(func() { errs[i] = deliverOver(ctx, address, run, i, (n+connections-1-i)/connections) })
	}
	senders.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("delivering: %w", err)
	}
	return nil
}

func deliverOver(ctx context.Context, address string, run uint32, connection, n int) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		return err
	}
	req := newRequest(address, run, bodySize, time.Now())
	buffer := make([]byte, 4<<10)
	for i := range n {
		if _, err := conn.Write(req.number(connection, i)); err != nil {
			return err
		}
		status, recorded, err := readAnswer(conn, buffer)
		if err != nil {
			return err
		}
		if status/100 != 2 || !recorded {
			return fmt.Errorf("a new event was answered %d", status)
		}
	}
	return nil
}

type generator struct {
	w        workload
	address  string
	run      uint32
	started  time.Time
	from, to time.Time
	arrivals chan time.Time
}

// send runs one connection.
func (g *generator) send(ctx context.Context, connection int) (*outcome, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", g.address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return nil, err
		}
	}
	out := &outcome{latencies: make([]time.Duration, 0, 1<<12)}
	req := newRequest(g.address, g.run, g.w.bodySize, g.started)
	buffer := make([]byte, 4<<10)
	fresh := 0
	for i := 0; ; i++ {
		begun, ok := g.next(ctx)
		if !ok {
			return out, nil
		}
		number := fresh
		if fresh > 0 && g.isDuplicate(i) {
			number = (i * 7919) % fresh // any of this connection's earlier ones
		} else {
			fresh++
		}
		raw := req.number(connection, number)
		if g.w.rate == 0 {
			begun = time.Now()
		}
		if _, err := conn.Write(raw); err != nil {
			return nil, err
		}
		status, recorded, err := readAnswer(conn, buffer)
		if err != nil {
			return nil, err
		}
		now := time.Now()
		if begun.Before(g.from) || g.w.rate == 0 && now.After(g.to) {
			continue
		}
		switch {
		case status/100 != 2:
			out.failed++
			continue
		case recorded:
			out.recorded++
		default:
			out.duplicate++
		}
		out.latencies = append(out.latencies, now.Sub(begun))
		if g.w.spans {
			out.spans = append(out.spans, timeSpan{begun, now.Sub(begun), string(req.id)})
		}
	}
}

// isDuplicate reports whether the i-th delivery of a connection repeats an earlier one. In "duplicates", only the
// warm-up makes new events.
func (g *generator) isDuplicate(i int) bool {
	switch g.w.kind {
	case halfDuplicates:
		return i%2 == 1
	case duplicates:
		return time.Now().Add(g.w.warmUp / 4).After(g.from)
	default:
		return false
	}
}

// next waits for the next arrival. In a closed loop there is always one until the time is over.
func (g *generator) next(ctx context.Context) (time.Time, bool) {
	if g.arrivals == nil {
		return time.Time{}, ctx.Err() == nil && time.Now().Before(g.to)
	}
	at, ok := <-g.arrivals
	return at, ok && ctx.Err() == nil
}

// pace makes the arrivals of the open loop at equal distances. It sleeps in the kernel, because the runtime's timers
// are only accurate to a millisecond.
func (g *generator) pace() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(g.arrivals)
	step := time.Duration(float64(time.Second) / g.w.rate)
	for at := g.started; at.Before(g.to); at = at.Add(step) {
		if wait := time.Until(at); wait > 0 {
			spec := syscall.NsecToTimespec(int64(wait))
			_ = syscall.Nanosleep(&spec, nil) // woken early, it sends a little early
		}
		g.arrivals <- at
	}
}

func waitUntil(at time.Time) {
	<-time.After(time.Until(at))
}

var (
	headEnd       = []byte("\r\n\r\n")
	contentLength = []byte("Content-Length: ")
	recordedWord  = []byte(`"recorded"`)
)

// readAnswer reads one answer, which must fit into the buffer.
func readAnswer(conn net.Conn, buffer []byte) (status int, recorded bool, err error) {
	have := 0
	for {
		n, err := conn.Read(buffer[have:])
		have += n
		head := bytes.Index(buffer[:have], headEnd)
		if head >= 0 {
			length := 0
			if i := bytes.Index(buffer[:head], contentLength); i >= 0 {
				digits, _, _ := bytes.Cut(buffer[i+len(contentLength):have], []byte{'\r'})
				if length, err = strconv.Atoi(string(digits)); err != nil {
					return 0, false, fmt.Errorf("reading an answer: %w", err)
				}
			}
			if have >= head+len(headEnd)+length {
				if have < 12 {
					return 0, false, fmt.Errorf("reading an answer: %w", io.ErrUnexpectedEOF)
				}
				status, err = strconv.Atoi(string(buffer[9:12]))
				return status, bytes.Contains(buffer[head:have], recordedWord), err
			}
		}
		if err != nil {
			return 0, false, fmt.Errorf("reading an answer: %w", err)
		}
		if have == len(buffer) {
			return 0, false, errors.New("reading an answer: it is too long")
		}
	}
}
