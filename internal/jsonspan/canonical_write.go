package jsonspan

// Append writes a value that was read in its canonical form.
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
		for i < len(members) && members[i].nameStart == end+2 && members[i].stands() { // they stand side by side
			end = members[i].end
			i++
		}
		out = append(out, n.doc[m.nameStart-1:end]...)
	}
	return append(out, '}')
}

// member writes a member that does not stand in the document as it is to be written.
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
