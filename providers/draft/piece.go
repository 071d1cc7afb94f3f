package draft

import (
	"slices"

	"github.com/oncegate/oncegate/providers"
)

// piece is one part of a message that may be signed.
type piece struct {
	value []byte
	part  providers.Part
	more  []providers.Part // the parts that follow part, if the piece represents several
	stamp *stamp           // set if the piece is a time that can be compared with the time of receipt
	of    string           // the header whose value contains the time together with a signature
	body  bool             // the piece represents the whole content
	field bool             // the piece represents a part of the content
	key   bool             // the piece is the secret itself
}

// separators lists the texts that senders put between the parts of a signed message.
var separators = []string{".", "", ":", "\n", "|", "&", "-", "_", ",", ";", "+", "/", " ", "\r\n", "?"}

func literal(text string) piece {
	return piece{value: []byte(text), part: providers.Part{Literal: text}}
}

func between(separator string) []piece {
	if separator == "" {
		return nil
	}
	return []piece{literal(separator)}
}

func joined(parts []piece, separator string) []piece {
	var out []piece
	for i, p := range parts {
		if i > 0 {
			out = append(out, between(separator)...)
		}
		out = append(out, p)
	}
	return out
}

func permute(parts []piece, visit func([]piece)) {
	if len(parts) > 4 {
		visit(parts)
		return
	}
	var place func(done, left []piece)
	place = func(done, left []piece) {
		if len(left) == 0 {
			visit(done)
			return
		}
		for i := range left {
			place(append(slices.Clone(done), left[i]), slices.Concat(left[:i], left[i+1:]))
		}
	}
	place(nil, parts)
}

func part(l *leaf) providers.Part {
	switch l.kind {
	case "form":
		return providers.Part{Form: l.name}
	case "query":
		return providers.Part{Query: l.name}
	case "header":
		return providers.Part{Header: []string{l.name}}
	}
	return providers.Part{JSON: l.name}
}
