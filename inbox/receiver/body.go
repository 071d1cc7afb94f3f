package receiver

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

var (
	// errBudget means that the memory for bodies is used up and that no slower body has
	// memory that could be freed.
	errBudget = errors.New("the byte budget is used up")

	// errShed means that the body arrived so slowly that others needed its memory first.
	errShed = errors.New("the body was shed: others needed the memory that it held")
)

// sizes are the capacities of pooled buffers. A body starts with the smallest one and gets
// the next when it has filled it, so that at most twice the bytes that have arrived are
// charged, regardless of its Content-Length.
var sizes = [...]int{4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20}

// bodies reads bodies into memory that it lends within the budget.
type bodies struct {
	bodyLimits
	now   func() time.Time
	inUse *atomic.Int64
	pools [len(sizes)]sync.Pool

	budget
}

func newBodies(limits bodyLimits, now func() time.Time, inUse *atomic.Int64) *bodies {
	return &bodies{bodyLimits: limits, now: now, inUse: inUse, budget: budget{committed: limits.sourceReserve * limits.sources}}
}

// body is a request body in borrowed memory.
type body struct {
	from *bodies
	buf  []byte // its capacity is charged to the budget
	box  *[]byte

	share *share
	peer  *peerShare // while it is arriving and its peer is known

	// The following fields are for a body that is still arriving.
	started  time.Time // when it got its first memory, into which its sender's bytes can come
	received atomic.Int64
	index    int   // in budget.arriving; under the budget's lock
	charged  int64 // likewise
	shed     bool  // likewise

	deadlines sync.Mutex // prevents a deadline from being set after the body has left
	control   *http.ResponseController
	deadline  time.Time
	left, cut bool
}

// class is the pool whose buffers have room for n bytes, or -1.
func class(n int) int {
	for i, size := range sizes {
		if n <= size {
			return i
		}
	}
	return -1
}

// capacity is the size of the buffer that is lent for n bytes.
func capacity(n int64) int64 {
	if n <= int64(sizes[len(sizes)-1]) {
		return int64(sizes[class(int(n))])
	}
	return n
}

// grow makes room for at least n bytes.
func (b *body) grow(n int) error {
	n = int(capacity(int64(n)))
	if err := b.from.take(b, int64(n)); err != nil {
		return err
	}
	c := class(n)
	var box *[]byte
	if c >= 0 {
		box, _ = b.from.pools[c].Get().(*[]byte)
	}
	if box == nil {
		fresh := make([]byte, n)
		box = &fresh
	}
	next := (*box)[:copy(*box, b.buf)]
	b.release()
	b.buf, b.box = next, box
	return nil
}

// release returns the memory to the pool. The caller must be its last user.
func (b *body) release() {
	if b.box == nil {
		return
	}
	n := cap(*b.box)
	if c := class(n); c >= 0 && sizes[c] == n {
		b.from.pools[c].Put(b.box)
	}
	b.abandon()
}

// abandon returns the charge but not the memory, which may still be read.
func (b *body) abandon() {
	if b.box == nil {
		return
	}
	b.from.give(b, int64(cap(*b.box)))
	b.buf, b.box = nil, nil
}

// arriving is the information about a body before it is read.
type arriving struct {
	w     http.ResponseWriter
	http  *http.Request
	limit int64 // the largest body taken
	share *share
	peer  netip.Addr
}

// read reads the whole body, at most as many bytes as the limit allows. On an error it
// keeps no memory.
func (b *bodies) read(in arriving) (*body, error) {
	taken := &body{from: b, share: in.share, control: http.NewResponseController(in.w)}
	declared := in.http.ContentLength
	if declared == 0 || in.http.Body == nil || in.http.Body == http.NoBody {
		return taken, nil
	}
	b.enter(taken, in.peer)
	cut, err := taken.receive(http.MaxBytesReader(in.w, in.http.Body, in.limit), declared, in.limit)
	if err == nil && !cut {
		return taken, nil
	}
	taken.release()
	if cut || errors.Is(err, net.ErrClosed) {
		// We let the deadline pass, which may also have cancelled the request, or its
		// connection was closed to make room for another one. The read error itself does
		// not matter.
		err = errShed
	}
	return nil, err
}

// receive reads the body while it counts among those that are arriving, and reports
// whether it was cut off.
func (b *body) receive(src io.Reader, declared, limit int64) (cut bool, err error) {
	ended := false
	defer func() {
		cut = b.leave(ended && err == nil)
		b.from.leave(b)
		if !ended { // reading has panicked
			b.abandon()
		}
	}()
	err = b.fill(src, declared, limit)
	ended = true
	return false, err
}

// fill reads until the body has ended. declared is its Content-Length, -1 if there is
// none.
func (b *body) fill(src io.Reader, declared, limit int64) error {
	most := limit + 1 // room to see that there is more
	if declared > 0 {
		most = min(declared, most)
	}
	if err := b.grow(int(min(most, int64(sizes[0])))); err != nil {
		return err
	}
	for {
		if len(b.buf) == cap(b.buf) && int64(len(b.buf)) != declared {
			if err := b.grow(int(nextSize(int64(cap(b.buf)), most))); err != nil {
				return err
			}
		}
		b.await()
		n, err := src.Read(b.buf[len(b.buf):cap(b.buf)])
		b.buf = b.buf[:len(b.buf)+n]
		b.received.Add(int64(n))
		switch {
		case declared >= 0 && int64(len(b.buf)) >= declared:
			return nil
		case err == nil:
		case !errors.Is(err, io.EOF):
			return err
		case declared < 0:
			return nil
		default:
			return io.ErrUnexpectedEOF
		}
	}
}

// nextSize is twice as much, but not more than can still come. A body over the largest
// pooled size gets room for all of it once twice as much is over a quarter of it, because
// the copy then adds little to the whole.
func nextSize(have, most int64) int64 {
	next := 2 * have
	if next >= most || have >= int64(sizes[len(sizes)-1]) && next > most/4 {
		return most
	}
	return next
}

// peak is the most that one body of the size is charged: while it grows, it has both its
// old and its new buffer.
func peak(size int64) int64 {
	if size >= 1<<40 {
		return size
	}
	most := size + 1
	have := capacity(min(most, int64(sizes[0])))
	held := have
	for have < most {
		next := capacity(nextSize(have, most))
		held = max(held, have+next)
		have = next
	}
	return held
}

// await sets the deadline for the next bytes: once the grace period is over, the body must
// have arrived at the least rate on average, and it must end before the timeout.
func (b *body) await() {
	limits := &b.from.bodyLimits
	atMost := limits.timeout
	if limits.leastRate > 0 {
		covered := time.Duration(float64(b.received.Load()) / float64(limits.leastRate) * float64(time.Second))
		atMost = min(atMost, max(limits.grace, covered))
	}
	b.deadlines.Lock()
	defer b.deadlines.Unlock()
	// A deadline that moves by less than a tenth of a second is left where it is.
	if until := b.started.Add(atMost); !b.cut && (b.deadline.IsZero() || until.Sub(b.deadline) > 100*time.Millisecond) {
		b.deadline = until
		// A writer that has no deadlines (a test's recorder) has no slow senders either.
		_ = b.control.SetReadDeadline(until)
	}
}

// cutOff ends the wait for the body's next bytes, unless it has left.
func (b *body) cutOff() {
	b.deadlines.Lock()
	defer b.deadlines.Unlock()
	if !b.left {
		b.cut = true
		_ = b.control.SetReadDeadline(time.Unix(1, 0))
	}
}

// leave records that nothing more is read and reports whether the body was cut off. The
// deadline is only for the body: it is removed from a whole body before the gate is called,
// because a connection whose deadline passes cancels the request.
func (b *body) leave(whole bool) (cut bool) {
	b.deadlines.Lock()
	defer b.deadlines.Unlock()
	b.left = true
	if whole && !b.cut {
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return b.cut
}

// bodyReason says why a body could not be read. It is empty if the sender did not cause
// that: the sender causes every read error except the budget's.
func bodyReason(err error) reason {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.Is(err, errBudget), errors.Is(err, errShed):
		return ""
	case errors.As(err, &tooLarge):
		return reasonTooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		return reasonSlow
	default:
		return reasonTruncated
	}
}
