package cli

import (
	"os"
	"sync/atomic"
	"time"

	"github.com/schollz/progressbar/v3" // rate, estimate and redrawing of a line; maintained, needs little itself
)

// progress shows the progress of long work as a bar on a terminal, and shows nothing elsewhere.
type progress struct {
	bar   *progressbar.ProgressBar
	ended atomic.Bool // other goroutines may still report progress after the end
}

// progress starts a bar on stderr, so that stdout can be piped. total is the number of items; -1
// means unknown.
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

// at sets the number of finished items.
func (p *progress) at(n int64) {
	if p.shown() {
		_ = p.bar.Set64(n)
	}
}

// total changes the total number of items.
func (p *progress) total(n int64) {
	if p.shown() {
		p.bar.ChangeMax64(n)
	}
}

// describe changes the description of the work.
func (p *progress) describe(what string) {
	if p.shown() {
		p.bar.Describe(what)
	}
}

// doing combines describe and at. p may be nil.
func (p *progress) doing(what string, n int64) {
	if p != nil {
		p.describe(what)
		p.at(n)
	}
}

// done removes the bar.
func (p *progress) done() {
	if p.shown() && !p.ended.Swap(true) {
		_ = p.bar.Finish()
	}
}
