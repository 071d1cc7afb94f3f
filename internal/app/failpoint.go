//go:build failpoint

package app

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/gate"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/internal/session"
	"github.com/oncegate/oncegate/internal/trials/wrong"
	"github.com/oncegate/oncegate/jobs/effect"
)

// The fail points of a binary built with the tag failpoint, for the crash test and the ordering campaign.
// ONCEGATE_FAILPOINT=name:n kills the process when it passes the point for the n-th time.
const (
	failBeforeCommit = "gate-before-commit" // a group's transaction is open, its COMMIT not sent
	failAfterCommit  = "gate-after-commit"  // committed, no delivery acknowledged
	failBeforeSend   = "work-before-send"   // claimed, nothing sent
	failAfterSend    = "work-after-send"    // the target has answered, nothing settled

	// wrongAckEarly is a gate that acknowledges before the commit. The crash test must notice.
	wrongAckEarly = "gate-ack-early"
	// wrongAsynchronous is a gate that does not wait for the disk. The crash test must notice.
	wrongAsynchronous = "gate-asynchronous"
	// wrongLeak is a gate that leaks the given number of bytes with each delivery. A soak must notice.
	wrongLeak = "gate-leak"
	// wrongUnlocked makes workers that do not lock streams. The ordering campaign must notice.
	wrongUnlocked = "work-unlocked"

	// wrongUnfenced is a process that uses any session, even on a former primary. The failover trial must
	// notice.
	wrongUnfenced = "unfenced"
	// Workers that do not wait for standbys before they send: likewise.
	wrongUnreceived = "work-unreceived"

	// These workers break the guarantee, and the kill test must notice. They settle an effect before they
	// send it, change the key or the bytes between attempts, use a transport that repeats requests, or
	// treat a missing answer as success.
	wrongSettleFirst  = "work-settle-first"
	wrongFreshKeys    = "work-fresh-keys"
	wrongOtherBytes   = "work-other-bytes"
	wrongHiddenResend = "work-hidden-resend"
	wrongGuess        = "work-guess"
)

// skewedClock is how many seconds the machine's clock is ahead. It is not a point, but it is set with the
// same variable.
const skewedClock = "clock"

func failingNow(now func() time.Time) func() time.Time {
	name, seconds, _ := strings.Cut(os.Getenv("ONCEGATE_FAILPOINT"), ":")
	if name != skewedClock {
		return now
	}
	ahead, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		panic("ONCEGATE_FAILPOINT: want clock:seconds")
	}
	return func() time.Time { return now().Add(time.Duration(ahead) * time.Second) }
}

// wrongOnPurpose reports whether ONCEGATE_FAILPOINT selects this fault.
func wrongOnPurpose(way string) bool {
	name, _, _ := strings.Cut(os.Getenv("ONCEGATE_FAILPOINT"), ":")
	return name == way
}

// failpoint is one point of one process.
type failpoint struct {
	left atomic.Int64
}

func newFailpoint(name string) *failpoint {
	f := &failpoint{}
	if wanted, n, ok := strings.Cut(os.Getenv("ONCEGATE_FAILPOINT"), ":"); ok && wanted == name {
		count, err := strconv.ParseInt(n, 10, 64)
		if err != nil || count < 1 {
			panic("ONCEGATE_FAILPOINT: want name:n")
		}
		f.left.Store(count)
	}
	return f
}

// pass kills the process without running any of its defers, if this is the n-th pass.
func (f *failpoint) pass() {
	if f.left.Load() > 0 && f.left.Add(-1) == 0 {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // nothing may happen between the signal and the end
	}
}

func failingAcquire(pool *pgxpool.Pool) gate.Acquire {
	before, after := newFailpoint(failBeforeCommit), newFailpoint(failAfterCommit)
	return func(ctx context.Context) (gate.Conn, error) {
		c, err := pool.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		if wrongOnPurpose(wrongAsynchronous) {
			if _, err := c.Exec(ctx, "SET synchronous_commit = off"); err != nil {
				c.Release()
				return nil, err
			}
		}
		return failingConn{Conn: c, before: before, after: after}, nil
	}
}

type failingConn struct {
	*pgxpool.Conn
	before, after *failpoint
}

// SendBatch implements [gate.Conn].
func (c failingConn) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	if queued := b.QueuedQueries; len(queued) == 0 || queued[len(queued)-1].SQL != "COMMIT" {
		return c.Conn.SendBatch(ctx, b)
	}
	c.before.pass()
	return failingResults{BatchResults: c.Conn.SendBatch(ctx, b), after: c.after}
}

// Warned implements [gate.Conn]. The crash test has no standby to warn about.
func (c failingConn) Warned() bool { return false }

// Release implements [gate.Conn].
func (c failingConn) Release(broken bool) {
	if broken {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = c.Conn.Conn().Close(ctx)
	}
	c.Conn.Release()
}

type failingResults struct {
	pgx.BatchResults
	after *failpoint
}

func (r failingResults) Close() error {
	err := r.BatchResults.Close()
	if err == nil {
		r.after.pass()
	}
	return err
}

// failingPool returns the pool, or one whose connections lock no streams.
func failingPool(ctx context.Context, pool *pgxpool.Pool) (*pgxpool.Pool, error) {
	if !wrongOnPurpose(wrongUnlocked) {
		return pool, nil
	}
	defer pool.Close()
	cfg := pool.Config()
	cfg.ConnConfig.DialFunc = wrong.Unlocked(cfg.ConnConfig.DialFunc)
	return pgxpool.NewWithConfig(ctx, cfg)
}

func unfenced() bool { return wrongOnPurpose(wrongUnfenced) }

func failingStandbys(s *session.Standbys) *session.Standbys {
	if wrongOnPurpose(wrongUnreceived) {
		return nil
	}
	return s
}

func failingGate(gate receiver.Accepter) receiver.Accepter {
	if wrongOnPurpose(wrongAckEarly) {
		return earlyGate{gate}
	}
	if name, bytes, _ := strings.Cut(os.Getenv("ONCEGATE_FAILPOINT"), ":"); name == wrongLeak {
		n, err := strconv.Atoi(bytes)
		if err != nil || n < 1 {
			panic("ONCEGATE_FAILPOINT: want " + wrongLeak + ":bytes")
		}
		return &leakingGate{Accepter: gate, bytes: n}
	}
	return gate
}

// leakingGate is wrong on purpose.
type leakingGate struct {
	receiver.Accepter
	bytes int

	mu   sync.Mutex
	lost [][]byte
}

// Accept records the delivery and leaks memory.
func (g *leakingGate) Accept(ctx context.Context, a *inbox.Admission) (inbox.Receipt, error) {
	lost := bytes.Repeat([]byte{1}, g.bytes) // written to, because otherwise it would not be resident
	g.mu.Lock()
	g.lost = append(g.lost, lost)
	g.mu.Unlock()
	return g.Accepter.Accept(ctx, a)
}

// earlyGate is wrong on purpose.
type earlyGate struct{ receiver.Accepter }

// Accept acknowledges immediately and records later.
func (g earlyGate) Accept(ctx context.Context, a *inbox.Admission) (inbox.Receipt, error) {
	later := *a
	later.Body, later.Headers = bytes.Clone(a.Body), bytes.Clone(a.Headers)
	go func() {
		time.Sleep(20 * time.Millisecond) //nolint:forbidigo // the delay is the planted fault
		_, _ = g.Accepter.Accept(context.WithoutCancel(ctx), &later)
	}()
	receipt := inbox.Receipt{Items: make([]inbox.ItemReceipt, len(a.Events))}
	for i := range receipt.Items {
		receipt.Items[i] = inbox.ItemReceipt{ID: inbox.NewID(a.ReceivedAt), Outcome: inbox.Recorded}
	}
	return receipt, nil
}

func failingSender(sender effect.Sender) effect.Sender {
	return killedSender{Sender: sender, before: newFailpoint(failBeforeSend), after: newFailpoint(failAfterSend)}
}

type killedSender struct {
	effect.Sender
	before, after *failpoint
}

// Address implements [effect.Addresser] for the wrapped sender.
func (s killedSender) Address(call *effect.Call) (string, error) {
	if a, ok := s.Sender.(effect.Addresser); ok {
		return a.Address(call)
	}
	return "", nil
}

// Reaches implements [effect.Addresser] for the wrapped sender.
func (s killedSender) Reaches(address string) bool {
	a, ok := s.Sender.(effect.Addresser)
	return ok && a.Reaches(address)
}

// Send implements [effect.Sender].
func (s killedSender) Send(ctx context.Context, call *effect.Call) effect.Result {
	s.before.pass()
	result := wrongly(ctx, s.Sender, call)
	s.after.pass()
	return result
}

// wrongly makes an attempt with the fault that ONCEGATE_FAILPOINT selects, if any.
func wrongly(ctx context.Context, sender effect.Sender, call *effect.Call) effect.Result {
	again := *call
	switch {
	case wrongOnPurpose(wrongSettleFirst):
		time.AfterFunc(500*time.Millisecond, func() { sender.Send(context.WithoutCancel(ctx), call) })
		return effect.Result{Outcome: effect.Done}
	case wrongOnPurpose(wrongFreshKeys):
		again.Key += "-" + strconv.Itoa(call.Attempt)
	case wrongOnPurpose(wrongOtherBytes):
		again.Event.Body = append(bytes.Clone(call.Event.Body), strings.Repeat(" ", call.Attempt)...)
	case wrongOnPurpose(wrongHiddenResend):
		return resendable(ctx, call)
	}
	result := sender.Send(ctx, &again)
	if wrongOnPurpose(wrongGuess) && result.Outcome == effect.Unknown {
		result.Outcome = effect.Done
	}
	return result
}

// careless is an HTTP client with the usual settings.
var careless = &http.Client{Timeout: time.Second}

// resendable sends without precautions. net/http may repeat such a request when a kept-alive connection
// breaks.
func resendable(ctx context.Context, call *effect.Call) effect.Result {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, os.Getenv("FAILPOINT_URL"), bytes.NewReader(call.Event.Body))
	if err != nil {
		return effect.Result{Outcome: effect.Dead, Reason: reasons.Render}
	}
	req.Header.Set("Idempotency-Key", call.Key)
	req.Header.Set("Oncegate-Attempt", strconv.Itoa(call.Attempt))
	resp, err := careless.Do(req)
	if err != nil {
		return effect.Result{Outcome: effect.Unknown, Reason: reasons.Connection}
	}
	_ = resp.Body.Close()
	return effect.Result{Outcome: effect.Done}
}
