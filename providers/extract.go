package providers

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"mime"
	"net/url"
	"slices"
	"strings"

	"github.com/oncegate/oncegate/internal/jsonspan"
)

// maxItems is how many events one delivery may contain.
const maxItems = 10_000

// extraction reads the events from a verified body.
type extraction struct {
	item, envelope *jsonspan.PathSet
	format         string
	form           bool
	multipart      bool
	formJSON       string
	split          int      // slot of the array in the envelope; -1 without a split
	nested         []nested // the arrays inside its elements
	splitForm      string

	ids, hash, types, occurred []field
	transmission               []field
	scope                      []field    // included in a digest
	volatile                   [][]string // excluded from the digest
	dated                      []bool     // for each of occurred: signed, and the time of the event itself
	sequence                   []sequenceFields
	times                      bool // the sequence numbers are times
	digest, level              bool
	bytesSigned                bool // the signature covers the body as it was sent
	pinned                     bool // the id is signed and the rest of the event is not
	levels                     []levelRule
	otherwise                  string
	splitType                  string
}

type sequenceFields struct {
	key, number field
	occurred    int // index of the field of the event's time that is also the number; -1 if none
}

func newExtraction(s *Spec) *extraction {
	item := jsonspan.NewPathSet()
	envelope := item // the same paths, unless the body is a batch
	if s.Split.JSON != "" {
		envelope = jsonspan.NewPathSet()
	}
	x := &extraction{
		item: item, envelope: envelope, format: s.Body.Format, form: s.Body.Form, multipart: s.Body.Multipart, formJSON: s.Body.FormJSON,
		bytesSigned: slices.ContainsFunc(s.Verify.Signed, func(p Part) bool { return strings.HasPrefix(p.Word, "body") }),
		pinned:      s.Verify.Authenticates == "part" && s.Identity.Mode == "id" && s.idSigned(),
		split:       -1, times: s.Sequence.Kind == "time", level: s.Identity.Mode == "level", digest: s.Identity.Mode == "digest", otherwise: s.Split.Otherwise, splitType: s.Split.ContentType,
	}
	if s.Split.JSON != "" {
		first, rest, _ := strings.Cut(s.Split.JSON, nestedMark)
		x.split, x.splitForm = envelope.Add(first), s.Split.Form
		if rest != "" {
			x.nested = newNested(rest, item)
		}
	}
	x.ids = compileFields(s.Identity.Candidates, item, envelope)
	x.transmission = compileFields(s.Identity.Transmission, item, envelope)
	x.hash = compileFields(s.Identity.Hash, item, envelope)
	x.scope = compileFields(s.scope(), item, envelope)
	x.types = compileFields(s.Type, item, envelope)
	for _, m := range s.Identity.LevelWhen {
		x.levels = append(x.levels, levelRule{m, compileField(Field{Header: m.Header, JSON: m.JSON, Query: m.Query, Form: m.Form}, item, envelope)})
	}
	for _, path := range s.Volatile {
		x.volatile = append(x.volatile, strings.Split(path, "."))
	}
	x.occurred = compileFields(s.OccurredAt, item, envelope)
	for i := range s.OccurredAt {
		x.dated = append(x.dated, s.Windows.Age == "occurred_at" && s.covered(&s.OccurredAt[i]))
	}
	for _, c := range s.Sequence.Candidates {
		occurred := -1
		if x.times && !c.Number.PlusIndex && c.Number.JSON != "" {
			occurred = slices.IndexFunc(s.OccurredAt, func(f Field) bool {
				return f.JSON == c.Number.JSON && f.Unit == c.Number.Unit && f.If == c.Number.If
			})
		}
		x.sequence = append(x.sequence, sequenceFields{compileField(c.Key, item, envelope), compileField(c.Number, item, envelope), occurred})
	}
	return x
}

// items returns the events of a body. It never fails, because every verified body is admitted, if
// necessary as unusable. document is what the body carries; it is read instead of the body if it is
// present. values are what a scheme found; they are read like the fields of a form. A single event
// is appended to one.
func (x *extraction) items(req *Request, document []byte, values url.Values, one []Item) []Item {
	whole := Item{Length: len(req.Payload())}
	s := newSource(req)
	defer s.done()
	s.envelope, s.form, s.carried = req.Body, values, document != nil
	if s.carried {
		s.envelope = document
	}
	if err := x.open(s); err != nil {
		if x.otherwise == "lines" && errors.Is(err, jsonspan.ErrNotJSON) {
			return x.lines(req)
		}
		whole.Unusable = "body: " + err.Error()
		// The type in the headers is still useful to the operator.
		whole.Type = x.eventType(s)
		x.keepID(&whole, s)
		return append(one, whole)
	}
	if x.split < 0 || x.whole(s) {
		s.item, s.itemSpans = s.envelope, s.envelopeSpans
		if x.split >= 0 {
			if err := x.single(s); err != nil {
				whole.Unusable = "body: " + err.Error()
				x.keepID(&whole, s)
				return append(one, whole)
			}
		}
		x.fill(&whole, s)
		return append(one, whole)
	}
	if s.carried || s.inForm && x.splitForm == "" {
		// The document was decoded from the body, so the body has no bytes of its events.
		whole.Unusable = "batch: inside an encoded document"
		return append(one, whole)
	}
	parts, err := x.elements(s)
	if err == nil && s.inForm {
		err = x.encoded(s, parts)
	}
	if err != nil {
		whole.Unusable = "batch: " + err.Error()
		return append(one, whole)
	}
	out := make([]Item, len(parts))
	s.batch = true
	for i, at := range parts {
		out[i] = Item{Offset: at.body.Start, Length: at.body.End - at.body.Start}
		s.item, s.parent, s.parentSpans = s.envelope[at.Start:at.End], at.parent, at.parentSpans
		if s.itemSpans, err = x.item.Walk(s.item); err != nil {
			s.itemSpans = nil
			out[i].Unusable = "event: " + err.Error()
			continue
		}
		s.index = i
		x.fill(&out[i], s)
	}
	return out
}

// open finds the document in the body and locates its fields.
func (x *extraction) open(s *source) error {
	var form url.Values
	var is bool
	var err error
	if !s.carried {
		form, is, err = x.fields(s.req)
	}
	if err != nil {
		return err
	}
	if is {
		s.form, s.inForm = merge(form, s.form), true
		document, ok, err := one(form[x.formJSON])
		if err != nil {
			return err
		}
		if !ok {
			// A plain form has no document, only fields.
			s.envelope = nil
			return nil
		}
		s.envelope = []byte(document)
	}
	spans, err := x.walk(s)
	if err != nil && x.format == "any" && errors.Is(err, jsonspan.ErrNotJSON) {
		return nil
	}
	s.envelopeSpans = spans
	return err
}

// walk locates the fields of the document. If the event id is always a digest, the same pass
// prepares the digest.
func (x *extraction) walk(s *source) ([]jsonspan.Span, error) {
	if !x.digest || x.split >= 0 || len(s.envelope) > jsonspan.MaxCanonical {
		return x.envelope.WalkInto(s.room[:], s.envelope)
	}
	spans := s.room[:]
	if x.envelope.Len() > len(spans) {
		spans = make([]jsonspan.Span, x.envelope.Len())
	}
	spans = spans[:x.envelope.Len()]
	d, _ := digesters.Get().(*digester)
	root, err := d.Read(s.envelope, x.volatile, x.envelope, spans)
	if err != nil {
		d.done()
		return nil, err
	}
	s.digester, s.root = d, root
	return spans, nil
}

// fields parses the payload as a form, if the provider sends forms and this payload is one.
func (x *extraction) fields(req *Request) (form url.Values, is bool, err error) {
	if x.multipart {
		if form, is, err = parseMultipart(req); is {
			return form, is, err
		}
	}
	if x.form && (x.formBody(req) || req.bodiless()) {
		form, err = parseForm(req.Payload())
		return form, true, err
	}
	return nil, false, nil
}

// formBody reports whether the body of a provider that also sends forms is one. If the signature
// covers the bytes of the body, it does not cover how the Content-Type says to read them. The
// Content-Type then decides only if the body does not show it: a JSON document begins with { or [,
// which a form never does.
func (x *extraction) formBody(req *Request) bool {
	body := bytes.TrimLeft(req.Body, " \t\r\n")
	if !x.bytesSigned || len(body) == 0 {
		return isForm(req)
	}
	return body[0] != '{' && body[0] != '[' && (isForm(req) || bytes.IndexByte(body, '=') > 0)
}

func isForm(req *Request) bool {
	value := req.Header.Get("Content-Type")
	if value == "application/json" || strings.HasPrefix(value, "application/json;") {
		return false // most bodies are JSON, and the media type parser is slow
	}
	media, _, err := mime.ParseMediaType(value)
	return err == nil && media == "application/x-www-form-urlencoded"
}

func (x *extraction) fill(item *Item, s *source) {
	if item.Type = x.eventType(s); item.Type == "" && len(x.types) > 0 {
		item.Type, item.Unknown = TypeUnknown, true
	}
	from := -1
	for i := range x.occurred {
		f := &x.occurred[i]
		value, ok, err := f.read(s, false)
		if errors.Is(err, errNotScalar) {
			value, ok, err = f.fraction(s)
		}
		if ok && err == nil {
			if t, ok := moment(value, f.Unit); ok {
				item.OccurredAt, item.Dated, from = t, x.dated[i], i
				break
			}
		}
	}
	x.position(item, s, from)
	item.EventID, item.Unusable = x.id(s)
	if item.Unusable == "" {
		if err := unstorable(item.Type, maxID); err != nil {
			item.Unusable = "event type: " + err.Error()
		}
	}
	if item.Unusable != "" && x.keepID(item, s) {
		return
	}
	if item.Unusable != "" {
		item.EventID, item.Unknown = "", false
		if unstorable(item.Type, maxID) != nil {
			item.Type = ""
		}
	}
}

// keepID gives an event that cannot be used its signed id, if the signature covers the id and not the
// event. The event is then of an unknown type instead of unusable. Otherwise anyone who has one
// delivery could combine its signature with any number of damaged bodies, and each of them would be
// a new event. A second body under a known id is a conflict.
func (x *extraction) keepID(item *Item, s *source) bool {
	if !x.pinned || s.batch {
		return false
	}
	id, unusable := x.id(s)
	if unusable != "" || x.digests(id) {
		return false
	}
	item.EventID, item.Unusable = id, ""
	item.Type, item.Unknown = TypeUnknown, true
	return true
}

// addTransmission sets the id of the transmission. The request has it, so it is there for an event that cannot be used as well:
// otherwise one captured delivery could become many unusable events.
func (x *extraction) addTransmission(item *Item, req *Request) {
	s := &source{req: req}
	for i := range x.transmission {
		value, ok, err := x.transmission[i].read(s, false)
		if err == nil && ok {
			err = unstorable(value, maxID)
		}
		switch {
		case err != nil:
			item.EventID, item.Unusable = "", "transmission: "+err.Error()
			return
		case ok:
			item.Transmission = value
			return
		}
	}
}

func (x *extraction) eventType(s *source) string {
	for i := range x.types {
		if value, ok, err := x.types[i].read(s, false); ok && err == nil {
			return value
		}
	}
	return ""
}

// position finds the event's position in its sequence. from is the index of the field that
// contained the event's time. If the sequence number is the same field, it is not read again.
func (x *extraction) position(item *Item, s *source, from int) {
	for i := range x.sequence {
		c := &x.sequence[i]
		key, ok, err := c.key.read(s, true)
		if !ok || err != nil || unstorable(key, maxKey) != nil {
			continue
		}
		if from >= 0 && c.occurred == from {
			item.SequenceKey, item.SequenceNumber = key, s.nanoseconds(item.OccurredAt)
			return
		}
		number, ok, err := c.number.read(s, false)
		if errors.Is(err, errNotScalar) && x.times {
			number, ok, err = c.number.fraction(s)
		}
		if !ok || err != nil {
			continue
		}
		if c.number.PlusIndex {
			if number, ok = plus(number, s.index); !ok {
				continue
			}
		}
		if x.times {
			t, isTime := moment(number, c.number.Unit)
			number, ok = s.nanoseconds(t), isTime
		} else {
			number, ok = integer(number)
		}
		if ok {
			item.SequenceKey, item.SequenceNumber = key, number
			return
		}
	}
}

// id returns the event id, or the reason why the event cannot be used. If a candidate is present
// but cannot be stored, the next candidate is not used, because the id of an event must not depend
// on how it was damaged. An event without any usable candidate has its digest as id.
func (x *extraction) id(s *source) (id, unusable string) {
	switch {
	case x.level:
		return x.levelEventID(s), ""
	case x.digest:
		return x.digestEventID(s), ""
	case len(x.hash) > 0:
		return x.hashed(s)
	}
	for i := range x.ids {
		if s.batch && !x.ids[i].ofEvent() {
			continue // the field belongs to the whole delivery, not to this event
		}
		value, ok, err := x.ids[i].read(s, true)
		if errors.Is(err, errNotScalar) {
			break
		}
		if err != nil {
			return "", "event id: " + err.Error()
		}
		if !ok {
			continue
		}
		if err := unstorable(value, maxID); err != nil {
			return "", "event id: " + err.Error()
		}
		if reserved(value) {
			return "", "event id: has the form of an unusable event's key"
		}
		return value, ""
	}
	return x.digestEventID(s), ""
}

// levelEventID returns the id of an event that cannot be distinguished from the next by its
// content.
func (x *extraction) levelEventID(s *source) string {
	event := s.item
	if event == nil {
		event = s.req.Payload()
	}
	return levelID(s.req, event, s.index)
}

// reserved reports whether id has the form of Oncegate's ids for unusable events, which a sender
// must not use.
func reserved(id string) bool {
	rest, ok := strings.CutPrefix(id, "~")
	return ok && len(rest) == 2*sha256.Size
}

// hashed derives an id from named fields. It hashes the length of each field, so that two different
// lists of values never result in the same input. An event that lacks one of the fields has its
// digest as id.
func (x *extraction) hashed(s *source) (id, unusable string) {
	sum := sha256.New()
	var length [9]byte
	for i := range x.hash {
		value, ok, err := x.hash[i].read(s, true)
		if errors.Is(err, errNotScalar) {
			value, ok, err = x.hash[i].structure(s)
		}
		if err != nil {
			return "", "event id: " + err.Error()
		}
		if !ok {
			return x.digestEventID(s), ""
		}
		length[0] = 1
		binary.BigEndian.PutUint64(length[1:], uint64(len(value)))
		sum.Write(length[:])
		sum.Write([]byte(value))
	}
	return hex.EncodeToString(sum.Sum(nil)), ""
}
