package providers

import (
	"math/big"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/oncegate/oncegate/internal/jsonspan"
)

// source is the input for the fields of one event: headers, the body's document and, in a batch,
// the event's element.
type source struct {
	req *Request

	envelope      []byte // the document
	envelopeSpans []jsonspan.Span
	parent        []byte // the element around the event's array, in nested batches
	parentSpans   []jsonspan.Span
	item          []byte // the event inside the document
	itemSpans     []jsonspan.Span
	form          url.Values
	inForm        bool // the document is inside a form
	carried       bool // the document was decoded from a token in the body
	query         url.Values
	index         int            // of the event in its batch
	batch         bool           // the delivery is a batch
	twins         map[string]int // for each digest, the number of events of the batch that have it
	digester      *digester      // set if it has already read the document
	root          jsonspan.Value // of the document, for the digester to write
	keep          keeper
	room          [24]jsonspan.Span // enough for the envelope's paths of nearly all providers
}

var sources = sync.Pool{New: func() any { return new(source) }}

// newSource returns a source from a pool, so that reading a delivery allocates only the values that
// outlive it.
func newSource(req *Request) *source {
	s, _ := sources.Get().(*source)
	s.req = req
	return s
}

// done returns the source to the pool. Values that were read from it do not point into it.
func (s *source) done() {
	if s.digester != nil {
		s.digester.done()
	}
	*s = source{}
	sources.Put(s)
}

// nanoseconds returns a time as a sequence number. It supports years whose nanoseconds do not fit
// in 64 bits.
func (s *source) nanoseconds(t time.Time) string {
	if year := t.UTC().Year(); year < 1678 || year > 2261 {
		n := new(big.Int).Mul(big.NewInt(t.Unix()), big.NewInt(int64(time.Second)))
		return s.keep.bytes(n.Add(n, big.NewInt(int64(t.Nanosecond()))).Append(nil, 10))
	}
	var digits [20]byte
	return s.keep.bytes(strconv.AppendInt(digits[:0], t.UnixNano(), 10))
}
