package providers

import (
	"net/http"
)

// Inspection is what a request would yield if it verified.
type Inspection struct {
	// Items are the events; none for a handshake.
	Items []Item

	// Handshake is the name of the handshake the request is; empty if it is a delivery.
	Handshake string
}

// Inspect reads the events out of a request without verifying it. What it says
// is worth nothing to anybody but the person who asked: never act on it.
func (p *Provider) Inspect(req *Request) Inspection {
	if name, ok := p.handshakeOf(req); ok {
		return Inspection{Handshake: name}
	}
	if p.IsOperation() {
		item, _, err := p.operation(req, "credential")
		if err != nil {
			return Inspection{Items: []Item{{Length: len(req.Body), Unusable: err.Error()}}}
		}
		return Inspection{Items: []Item{item}}
	}
	if req.Header == nil {
		clone := *req
		clone.Header = http.Header{}
		req = &clone
	}
	return Inspection{Items: p.extraction.items(req, nil, nil)}
}

// handshakeOf names the handshake whose conditions the request meets.
func (p *Provider) handshakeOf(req *Request) (string, bool) {
	for i := range p.handshakes {
		h := &p.handshakes[i]
		if h.Method != req.Method || !h.hinted(req) {
			continue
		}
		s := source{req: req}
		if h.paths.Len() > 1 {
			spans, err := h.paths.Walk(req.Body)
			if err != nil {
				continue
			}
			s.item, s.itemSpans = req.Body, spans
		}
		if h.matches(&s) {
			return h.Name, true
		}
	}
	return "", false
}
