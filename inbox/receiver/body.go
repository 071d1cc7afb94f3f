package receiver

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
)

// errBudget: the memory for bodies in flight is used up.
var errBudget = errors.New("the byte budget is used up")

// sizes of pooled buffers. The first is what a body is charged before its sender
// has sent anything, so that many slow senders cannot use up the budget by
// announcing large bodies.
var sizes = [...]int{4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20}

const firstSize = 16 << 10

// bodies lends the memory for bodies and never more of it than the budget.
type bodies struct {
	limit int64
	inUse *atomic.Int64
	pools [len(sizes)]sync.Pool
}

func newBodies(limit int64, inUse *atomic.Int64) *bodies {
	return &bodies{limit: limit, inUse: inUse}
}

// body is a request body in borrowed memory.
type body struct {
	from *bodies
	buf  []byte // its capacity is what is charged
	box  *[]byte
}

func (b *bodies) take(n int) bool {
	if b.inUse.Add(int64(n)) > b.limit {
		b.inUse.Add(-int64(n))
		return false
	}
	return true
}

// class is the pool whose buffers hold n bytes, or -1.
func class(n int) int {
	for i, size := range sizes {
		if n <= size {
			return i
		}
	}
	return -1
}

// grow makes room for at least n bytes.
func (b *body) grow(n int) error {
	c := class(n)
	if c >= 0 {
		n = sizes[c]
	}
	if !b.from.take(n) {
		return errBudget
	}
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

// release gives the memory back. The caller must be the last who holds it.
func (b *body) release() {
	if b.box == nil {
		return
	}
	n := cap(*b.box)
	if c := class(n); c >= 0 && sizes[c] == n {
		b.from.pools[c].Put(b.box)
	}
	b.from.inUse.Add(-int64(n))
	b.buf, b.box = nil, nil
}

// abandon gives the charge back but not the memory: somebody may still read it.
func (b *body) abandon() {
	if b.box != nil {
		b.from.inUse.Add(-int64(cap(*b.box)))
		b.buf, b.box = nil, nil
	}
}

// read takes the whole body of req, at most limit bytes. declared is its
// Content-Length, -1 if it gives none. On an error nothing is lent.
func (b *bodies) read(w http.ResponseWriter, req *http.Request, limit int64) (*body, error) {
	taken := &body{from: b}
	declared := req.ContentLength
	if declared == 0 || req.Body == nil || req.Body == http.NoBody {
		return taken, nil
	}
	src := http.MaxBytesReader(w, req.Body, limit)
	first := firstSize
	if declared > 0 {
		first = int(min(declared, firstSize))
	}
	if err := taken.grow(first); err != nil {
		return nil, err
	}
	for {
		if len(taken.buf) == cap(taken.buf) && int64(len(taken.buf)) != declared {
			if err := taken.grow(nextSize(cap(taken.buf), declared, limit)); err != nil {
				taken.release()
				return nil, err
			}
		}
		n, err := src.Read(taken.buf[len(taken.buf):cap(taken.buf)])
		taken.buf = taken.buf[:len(taken.buf)+n]
		if declared >= 0 && int64(len(taken.buf)) >= declared {
			return taken, nil
		}
		if err == nil {
			continue
		}
		if errors.Is(err, io.EOF) && declared < 0 {
			return taken, nil
		}
		taken.release()
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
}

// nextSize is four times as much, but not more than was declared or could come.
func nextSize(have int, declared, limit int64) int {
	most := limit + 1 // room to see that there is more
	if declared > 0 {
		most = declared
	}
	return int(min(int64(have)*4, most))
}

// peak is the most that one body of the size holds: while it grows, it holds
// what it had and what it gets.
func peak(size int64) int64 {
	if size >= 1<<40 {
		return size
	}
	switch c := class(int(size) + 1); c {
	case -1:
		return 2*size + 1
	case 0:
		return int64(sizes[0])
	default:
		return int64(sizes[c] + sizes[c-1])
	}
}

// bodyReason says why a body could not be read, and whether that is the
// sender's doing: everything that reading can fail with is, but for the budget.
func bodyReason(err error) (reason reason, ours bool) {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.Is(err, errBudget):
		return "", true
	case errors.As(err, &tooLarge):
		return reasonTooLarge, false
	case errors.Is(err, os.ErrDeadlineExceeded):
		return reasonSlow, false
	default:
		return reasonTruncated, false
	}
}
