package config

import (
	"errors"
	"fmt"
	"time"

	"github.com/oncegate/oncegate/internal/yamltree"
)

// Repeats configures the detection of calls that are repeated under another key.
type Repeats struct {
	// Within is how long after a call another call with the same arguments is suspected to repeat
	// it. Zero disables the detection.
	Within time.Duration
	// Refuse answers a suspected repeat with 409 instead of flagging it.
	Refuse bool
}

// read reads the section repeats.
func (p *Repeats) read(r *reader, n *yamltree.Node) {
	r.fields(n, p.keys())
	if n.Sound() && p.Within == 0 {
		n.Fail("needs within, such as within: 10m")
	}
}

func (p *Repeats) keys() []Key {
	return []Key{
		value("within", &p.Within, form[time.Duration]{repeatsWithin, durationText, durationSchema}, "required", "How long after a call another one of the same credential with the same arguments is suspected, if it comes under another key; at most `24h`."),
		value("answer", &p.Refuse, choice("flag", "409"), "`flag`", "The answer to such a call: `flag` records and flags it, `409` refuses it."),
	}
}

// ownRepeats reads the section repeats of a declared operation, which may be off to disable the
// source's detection.
func (r *reader) ownRepeats(n *yamltree.Node) *Repeats {
	p := &Repeats{}
	if n.IsScalar() {
		var off bool
		if !yamltree.Read(n, &off, repeatsOff) {
			return nil
		}
		return p
	}
	p.read(r, n)
	return p
}

func repeatsOff(s string) (bool, error) {
	if s != "off" {
		return false, errors.New("neither off nor settings such as { within: 10m }")
	}
	return true, nil
}

// show returns the settings of a declared operation.
func (p *Repeats) show() (any, bool) {
	switch {
	case p == nil:
		return nil, false
	case p.Within == 0:
		return "off", true
	}
	return printed(p.keys()), true
}

// longestRepeats limits how long calls are remembered for the detection of repeats.
const longestRepeats = 24 * time.Hour

func repeatsWithin(s string) (time.Duration, error) {
	d, err := yamltree.PositiveDuration(s)
	if err == nil && d > longestRepeats {
		err = fmt.Errorf("longer than %s", yamltree.FormatDuration(longestRepeats))
	}
	return d, err
}
