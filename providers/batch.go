package providers

import (
	"bytes"
	"errors"
	"maps"
	"math"
	"mime"
	"net/url"
	"strconv"
)

// whole reports whether this body is a single event, although the provider also sends batches.
func (x *extraction) whole(s *source) bool {
	if x.splitType != "" {
		media, _, err := mime.ParseMediaType(s.req.Header.Get("Content-Type"))
		if err != nil || media != x.splitType {
			return true
		}
	}
	if x.otherwise == "elements" && s.envelopeSpans != nil && s.envelope[s.envelopeSpans[0].Start] == '[' {
		return false
	}
	return !x.batch(s)
}

// plus adds an event's index in its batch to the number of the first event.
func plus(number string, index int) (string, bool) {
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n > math.MaxInt64-maxItems {
		return "", false
	}
	return strconv.FormatInt(n+int64(index), 10), true
}

// batch reports whether the body has the array of events.
func (x *extraction) batch(s *source) bool {
	if s.envelopeSpans == nil {
		return false
	}
	at := s.envelopeSpans[x.split]
	return at.Present() && s.envelope[at.Start] == '['
}

// single treats the whole body as one event, for a provider that also sends batches.
func (x *extraction) single(s *source) error {
	s.item, s.itemSpans = nil, nil
	if s.envelopeSpans == nil {
		return nil // the body is not JSON; the provider also sends other formats
	}
	spans, err := x.item.Walk(s.envelope)
	if err != nil {
		return err
	}
	s.item, s.itemSpans = s.envelope, spans
	return nil
}

var errTooMany = errors.New("more events than one delivery may carry")

// lines splits a body with one JSON document in each line. It skips empty lines.
func (x *extraction) lines(req *Request) []Item {
	var out []Item
	twins := map[string]int{}
	start := 0
	for start < len(req.Body) {
		end := len(req.Body)
		if i := bytes.IndexByte(req.Body[start:], '\n'); i >= 0 {
			end = start + i
		}
		line := req.Body[start:end]
		if len(bytes.TrimSpace(line)) > 0 {
			if len(out) == maxItems {
				return []Item{{Length: len(req.Body), Unusable: "batch: " + errTooMany.Error()}}
			}
			item := Item{Offset: start, Length: len(line)}
			s := source{req: req, item: line, index: len(out), batch: true, twins: twins}
			var err error
			if s.itemSpans, err = x.item.Walk(line); err != nil {
				item.Unusable = "event: " + err.Error()
			} else {
				x.fill(&item, &s)
			}
			out = append(out, item)
		}
		start = end + 1
	}
	return out
}

// merge combines the values that a scheme found with those of a form. The scheme's values replace
// the form's, because the scheme has verified them.
func merge(form, found url.Values) url.Values {
	maps.Copy(form, found)
	return form
}
