package providers

import (
	"math/big"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/oncegate/oncegate/internal/jsonspan"
)

// source is what the fields of one event are read from: headers, the body's
// document and, in a batch, the event's element of it.
type source struct {
	req *Request

	envelope      []byte // the document
	envelopeSpans []jsonspan.Span
	parent        []byte // the element around the event's array, in nested batches
	parentSpans   []jsonspan.Span
	item          []byte // the event inside it
	itemSpans     []jsonspan.Span
	form          url.Values
	inForm        bool // the document is inside a form
	query         url.Values
	index         int            // of the event in its batch
	batch         bool           // the delivery is a batch
	twins         map[string]int // how many events of the batch have a digest already
	digester      *digester      // has read the document already; nil if not
	root          jsonspan.Value // of the document, as the digester writes it
	keep          keeper
	room          [24]jsonspan.Span // of the envelope's paths, for all but a few providers
}

var sources = sync.Pool{New: func() any { return new(source) }}

// newSource is a source that was used before: reading a delivery allocates nothing
// but what is kept of it.
func newSource(req *Request) *source {
	s, _ := sources.Get().(*source)
	s.req = req
	return s
}

// done gives the source back. Nothing that was read of it points into it.
func (s *source) done() {
	if s.digester != nil {
		s.digester.done()
	}
	*s = source{}
	sources.Put(s)
}

// nanoseconds is a time as a sequence number. A year that does not fit in 64 bits of nanoseconds
// sorts after all others.
func (s *source) nanoseconds(t time.Time) string {
	if year := t.UTC().Year(); year < 1678 || year > 2261 {
		n := new(big.Int).Mul(big.NewInt(t.Unix()), big.NewInt(int64(time.Second)))
		return s.keep.bytes(n.Add(n, big.NewInt(int64(t.Nanosecond()))).Append(nil, 10))
	}
	var digits [20]byte
	return s.keep.bytes(strconv.AppendInt(digits[:0], t.UnixNano(), 10))
}
