package providers

import (
	"net/http"
)

// Inspection is what Oncegate would read from a request if it verified.
type Inspection struct {
	// Items contains the events. It is empty for a handshake.
	Items []Item

	// Handshake is the name of the handshake that the request matches. It is empty for a delivery.
	Handshake string
}

// Inspect reads the events from a request without verifying it. Show the result only to the
// operator who asked, and never act on it, because anyone can forge the request.
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
	return Inspection{Items: p.extraction.items(req, p.carried(req.Body), nil, nil)}
}

// handshakeOf returns the name of the handshake whose conditions the request meets.
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
