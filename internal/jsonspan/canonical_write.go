package jsonspan

// Append appends the canonical form of a value that Read has read.
func (n *Canonicalizer) Append(out []byte, p Value) []byte {
	switch p.kind {
	case asItStands:
		return append(out, n.doc[p.start:p.end]...)
	case inTexts:
		return append(out, n.texts[p.start:p.end]...)
	case '[':
		out = append(out, '[')
		for i := p.start; i < p.end; i++ {
			if i > p.start {
				out = append(out, ',')
			}
			out = n.Append(out, n.kept[i].Value)
		}
		return append(out, ']')
	}
	out = append(out, '{')
	members := n.kept[p.start:p.end]
	for i := 0; i < len(members); {
		if i > 0 {
			out = append(out, ',')
		}
		m := &members[i]
		i++
		if !m.stands() {
			out = n.member(out, m)
			continue
		}
		end := m.end
		for i < len(members) && members[i].nameStart == end+2 && members[i].stands() { // members adjacent in the document
			end = members[i].end
			i++
		}
		out = append(out, n.doc[m.nameStart-1:end]...)
	}
	return append(out, '}')
}

// member appends a member whose bytes in the document are not its canonical form.
func (n *Canonicalizer) member(out []byte, m *part) []byte {
	switch {
	case m.respelt:
		out = append(appendText(out, n.text(m)), ':')
	case n.doc[m.nameEnd+1] == ':':
		out = append(out, n.doc[m.nameStart-1:m.nameEnd+2]...)
	default:
		out = append(append(out, n.doc[m.nameStart-1:m.nameEnd+1]...), ':')
	}
	return n.Append(out, m.Value)
}
