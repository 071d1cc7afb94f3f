package main

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
)

// mutation is one change of one file.
type mutation struct {
	File string // absolute
	Line int    // from 1
	Kind string // the kind of mutation, for the report

	start, end int // offsets of the bytes to replace
	by         string
	source     []byte
	pack       *pack
}

// apply returns the file with the change.
func (m *mutation) apply() []byte {
	return bytes.Join([][]byte{m.source[:m.start], []byte(m.by), m.source[m.end:]}, nil)
}

// place returns the file, relative to the module, and the line.
func (m *mutation) place() string {
	path := m.File
	if m.pack != nil {
		if relative, err := filepath.Rel(m.pack.Module.Dir, m.File); err == nil {
			path = relative
		}
	}
	return fmt.Sprintf("%s:%d", path, m.Line)
}

// diff returns the lines that the change touches, before and after.
func (m *mutation) diff() string {
	first := bytes.LastIndexByte(m.source[:m.start], '\n') + 1
	last := len(m.source)
	if i := bytes.IndexByte(m.source[m.end:], '\n'); i >= 0 {
		last = m.end + i
	}
	after := string(m.source[first:m.start]) + m.by + string(m.source[m.end:last])
	var b strings.Builder
	write(&b, "-", string(m.source[first:last]))
	write(&b, "+", after)
	return b.String()
}

func write(b *strings.Builder, sign, text string) {
	for line := range strings.SplitSeq(text, "\n") {
		b.WriteString(sign + line + "\n")
	}
}
