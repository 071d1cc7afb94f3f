package providers

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/oncegate/oncegate/internal/jsonspan"
)

// digestPrefix starts an event id that is a digest of the payload.
const digestPrefix = "sha256:"

// digestEventID returns the event id for an event without an id from the sender: a digest of the
// whole payload without its volatile members, together with the scope outside the payload that
// distinguishes events. Two payloads that differ in a member that is not volatile never have the
// same id. A retry that differs only in volatile members has the same id.
//
// The digest ignores white space, the order of keys and escapes. If a delivery contains the same
// event more than once, each repetition gets a number, because a sender that repeats an event in
// one batch means two events. A delivery without a payload cannot be distinguished from others, so
// each one is a separate event.
func (x *extraction) digestEventID(s *source) string {
	for i := range x.levels {
		if x.levels[i].holds(s) {
			return x.levelEventID(s)
		}
	}
	d := s.digester // it has read the document, and is released with the source
	if d == nil {
		d, _ = digesters.Get().(*digester)
		defer d.done()
	}
	for i := range x.scope {
		d.field(&x.scope[i], s)
	}
	if !d.payload(x, s) {
		return x.levelEventID(s)
	}
	sum := sha256.Sum256(d.out)
	var text [len(digestPrefix) + 2*sha256.Size]byte
	copy(text[:], digestPrefix)
	hex.Encode(text[len(digestPrefix):], sum[:])
	id := string(text[:])
	if !s.batch {
		return id
	}
	if s.twins == nil {
		s.twins = map[string]int{}
	}
	s.twins[id]++
	if n := s.twins[id]; n > 1 {
		id += "." + strconv.Itoa(n)
	}
	return id
}

// digester computes the digest of an event.
type digester struct {
	jsonspan.Canonicalizer
	out []byte
}

var digesters = sync.Pool{New: func() any { return new(digester) }}

// maxKept is the largest buffer that is kept for the next digest.
const maxKept = 1 << 20

func (d *digester) done() {
	if cap(d.out)+d.Room() > maxKept {
		return
	}
	d.Release()
	d.out = d.out[:0]
	digesters.Put(d)
}

// text writes a text with its length, so that different lists of texts have different digests.
func (d *digester) text(s string) {
	d.out = binary.BigEndian.AppendUint64(d.out, uint64(len(s)))
	d.out = append(d.out, s...)
}

// field writes a field with its name if the field is present. A field that is added to a spec
// therefore changes no id of events that lack it.
func (d *digester) field(f *field, s *source) {
	value, ok, err := f.read(s, true)
	if err != nil {
		value, ok = string(f.raw(s)), true
		if f.Header != "" {
			value = strings.Join(s.req.Header[f.Header], "\x00")
		}
	}
	if ok {
		d.out = append(d.out, '+')
		d.text(f.spelling())
		d.text(value)
	}
}

// payload writes the event and reports whether there is one.
func (d *digester) payload(x *extraction, s *source) bool {
	if s.item != nil && s.itemSpans != nil {
		if s.digester != nil {
			d.writeDocument(s.item, s.root, true)
		} else {
			d.document(s.item, x.volatile)
		}
		if s.inForm && !s.batch {
			d.form(x, s)
		}
		return true
	}
	if s.form != nil {
		return d.form(x, s)
	}
	body := s.item // a line, or an element that cannot be parsed
	if body == nil {
		body = s.req.Body
	}
	d.out = append(d.out, 'b')
	d.out = append(d.out, body...)
	return len(body) > 0
}

// document writes JSON in its canonical form. It writes the unchanged bytes if there is no such
// form because a key is repeated or a text is not UTF-8.
func (d *digester) document(doc []byte, volatile [][]string) {
	root, err := d.Read(doc, volatile, nil, nil)
	d.writeDocument(doc, root, err == nil)
}

// writeDocument is document for a document that Read has parsed. read says whether that succeeded.
func (d *digester) writeDocument(doc []byte, root jsonspan.Value, read bool) {
	if !read || !d.HasForm() {
		d.out = append(append(d.out, 'b'), doc...)
		return
	}
	d.out = append(d.out, 'j')
	d.out = d.Append(d.out, root)
}

// form writes the fields of a form, sorted by name, and the files of a multipart body. It omits the
// field that contains the parsed document.
func (d *digester) form(x *extraction, s *source) bool {
	found := false
	for _, name := range slices.Sorted(maps.Keys(s.form)) {
		if name == x.formJSON && x.formJSON != "" && s.itemSpans != nil || x.volatileField(name) {
			continue
		}
		for _, value := range s.form[name] {
			found = true
			d.out = append(d.out, 'f')
			d.text(name)
			d.text(value)
		}
	}
	if !x.multipart || !s.inForm {
		return found
	}
	for _, file := range multipartFiles(s.req) {
		found = true
		d.out = append(d.out, 'm')
		d.text(file.field)
		d.text(file.name)
		d.out = append(d.out, file.sum[:]...)
	}
	return found
}

// volatileField reports whether a field of a form is volatile.
func (x *extraction) volatileField(name string) bool {
	return slices.ContainsFunc(x.volatile, func(path []string) bool {
		return path[0] == name && len(path) == 1 || len(path) > 1 && strings.Join(path, ".") == name
	})
}

// ofEvent reports whether a field reads anything from the event itself.
func (f *Field) ofEvent() bool {
	return f.JSON != "" || slices.ContainsFunc(f.Join, func(part Field) bool { return part.ofEvent() })
}

// spelling returns the name of a field in the notation of a spec.
func (f *Field) spelling() string {
	return cmp.Or(prefixed("header:", f.Header), prefixed("parent:", f.Parent), prefixed("envelope:", f.Envelope),
		prefixed("query:", f.Query), prefixed("form:", f.Form), prefixed("json:", f.JSON))
}

func prefixed(prefix, name string) string {
	if name == "" {
		return ""
	}
	return prefix + name
}

// scope returns the fields that are included in a payload's digest: those that the spec names, and
// those outside the payload that contain the type, because two deliveries of different types are
// two events even if their payloads are equal. The fields are sorted, so their order in the spec
// has no effect.
func (s *Spec) scope() []Field {
	fields := slices.Clone(s.Identity.With)
	var collect func(f *Field)
	collect = func(f *Field) {
		if f.Header != "" || f.Parent != "" || f.Envelope != "" || f.Query != "" {
			fields = append(fields, Field{Header: f.Header, Parent: f.Parent, Envelope: f.Envelope, Query: f.Query})
		}
		for i := range f.Join {
			collect(&f.Join[i])
		}
	}
	for i := range s.Type {
		collect(&s.Type[i])
	}
	slices.SortFunc(fields, func(a, b Field) int { return cmp.Compare(a.spelling(), b.spelling()) })
	return slices.CompactFunc(fields, func(a, b Field) bool { return a.spelling() == b.spelling() })
}

// digests reports whether an event id is a digest of the payload because the sender sent none.
func (x *extraction) digests(id string) bool {
	return !x.level && strings.HasPrefix(id, digestPrefix)
}
