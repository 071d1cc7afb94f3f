package config

import (
	"errors"
	"fmt"
	"time"

	"github.com/goccy/go-yaml"

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
func (p *Repeats) read(n *yamltree.Node) {
	n.Fields(map[string]func(*yamltree.Node){
		"within": yamltree.Value(&p.Within, repeatsWithin),
		"answer": yamltree.Value(&p.Refuse, answerRepeats),
	})
	if n.Sound() && p.Within == 0 {
		n.Fail("needs within, such as within: 10m")
	}
}

// ownRepeats reads the section repeats of a declared operation, which may be off to disable the
// source's detection.
func ownRepeats(n *yamltree.Node) *Repeats {
	p := &Repeats{}
	if n.IsScalar() {
		var off bool
		if !yamltree.Read(n, &off, repeatsOff) {
			return nil
		}
		return p
	}
	p.read(n)
	return p
}

func repeatsOff(s string) (bool, error) {
	if s != "off" {
		return false, errors.New("neither off nor settings such as { within: 10m }")
	}
	return true, nil
}

// effective returns the settings for the effective configuration.
func (p *Repeats) effective() any {
	if p.Within == 0 {
		return "off"
	}
	out := duration(yaml.MapSlice{}, "within", p.Within)
	if p.Refuse {
		out = append(out, item("answer", "409"))
	}
	return out
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

// answerRepeats parses the setting for the answer to a suspected repeat: 409 is true, flag is
// false.
func answerRepeats(s string) (bool, error) {
	switch s {
	case "409":
		return true, nil
	case "flag":
		return false, nil
	}
	return false, errors.New("unknown; known are flag, 409")
}
