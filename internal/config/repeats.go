package config

import (
	"errors"
	"fmt"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/oncegate/oncegate/internal/yamltree"
)

// Repeats are the settings of repeats.
type Repeats struct {
	// Within is how long after a call another one with its arguments is suspected; 0 looks for none.
	Within time.Duration
	// Refuse answers it 409.
	Refuse bool
}

// read reads the section.
func (p *Repeats) read(n *yamltree.Node) {
	n.Fields(map[string]func(*yamltree.Node){
		"within": yamltree.Value(&p.Within, repeatsWithin),
		"answer": yamltree.Value(&p.Refuse, answerRepeats),
	})
	if n.Sound() && p.Within == 0 {
		n.Fail("needs within, such as within: 10m")
	}
}

// ownRepeats reads the section of a declared operation, which may say off where the source looks for repeats.
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

// effective is the section as it holds.
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

// longestRepeats bounds how long calls are remembered for repeats.
const longestRepeats = 24 * time.Hour

func repeatsWithin(s string) (time.Duration, error) {
	d, err := yamltree.PositiveDuration(s)
	if err == nil && d > longestRepeats {
		err = fmt.Errorf("longer than %s", yamltree.FormatDuration(longestRepeats))
	}
	return d, err
}

// answerRepeats reads how a suspected repeat is answered.
func answerRepeats(s string) (bool, error) {
	switch s {
	case "409":
		return true, nil
	case "flag":
		return false, nil
	}
	return false, errors.New("unknown; known are flag, 409")
}
