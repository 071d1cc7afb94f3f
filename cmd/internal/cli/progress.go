package cli

import (
	"os"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3" // rate, estimate and redrawing of a line; maintained, needs little itself
)

// progress shows how far long work is: a bar on a terminal, nothing elsewhere.
type progress struct {
	bar   *progressbar.ProgressBar
	ended atomic.Bool // what goes on elsewhere may still tell how far it is
}

// progress begins a bar on the error stream, so that what is written to the output
// can be piped. total is how many there are to do; -1 if that is not known.
func (s *shell) progress(total int64, what string) *progress {
	file, ok := s.err.(*os.File)
	if !ok || !isTerminal(file) || s.output == "json" {
		return &progress{}
	}
	width := max(min(s.width()-50, 40), 10)
	return &progress{bar: progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(file), progressbar.OptionSetDescription(what), progressbar.OptionSetWidth(width),
		progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetPredictTime(true),
		progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(), progressbar.OptionUseANSICodes(true),
	)}
}

func (p *progress) shown() bool { return p.bar != nil && !p.ended.Load() }

// at says that n are done.
func (p *progress) at(n int64) {
	if p.shown() {
		_ = p.bar.Set64(n)
	}
}

// total changes how many there are to do.
func (p *progress) total(n int64) {
	if p.shown() {
		p.bar.ChangeMax64(n)
	}
}

// describe changes what is being done.
func (p *progress) describe(what string) {
	if p.shown() {
		p.bar.Describe(what)
	}
}

// doing is at and describe, for an operation that says both.
func (p *progress) doing(what string, n int64) {
	if p != nil {
		p.describe(what)
		p.at(n)
	}
}

// done removes the bar: what follows says how it ended.
func (p *progress) done() {
	if p.shown() && !p.ended.Swap(true) {
		_ = p.bar.Finish()
	}
}
