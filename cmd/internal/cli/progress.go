package cli

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// bar shows on a terminal how far something has come; elsewhere it shows nothing.
type bar struct {
	s     *shell
	what  string
	width int
	next  time.Time
	drawn bool
}

func (s *shell) progress(what string) *bar {
	b := &bar{s: s, what: what}
	if f, ok := s.err.(*os.File); ok && isTerminal(f) {
		b.width = max(terminalWidth(f), 40)
	}
	return b
}

// barEvery is how often a bar is drawn anew.
const barEvery = 100 * time.Millisecond

// show draws the bar; of is 0 where the whole is not known.
func (b *bar) show(done, of int) { b.draw(done, of, "") }

func (b *bar) draw(done, of int, rest string) {
	now := time.Now()
	if b.width == 0 || b.drawn && now.Before(b.next) && (of == 0 || done < of) {
		return
	}
	b.next, b.drawn = now.Add(barEvery), true
	line := fmt.Sprintf("%s %d", b.what, done)
	if of > 0 {
		const cells = 20
		full := min(cells*done/of, cells)
		line = fmt.Sprintf("%s [%s%s] %d/%d", b.what, strings.Repeat("#", full), strings.Repeat(".", cells-full), done, of)
	}
	if rest != "" {
		line += " " + rest
	}
	fmt.Fprintf(b.s.err, "\r%-*s", b.width-1, cut(line, b.width-1))
}

// end leaves the line.
func (b *bar) end() {
	if b.drawn {
		fmt.Fprintln(b.s.err)
	}
}
