package config

import (
	"errors"
	"strings"

	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/internal/yamltree"
)

// checkBodies reports limits that contradict each other, and sources whose largest body never fits
// into the memory for bodies.
func (r *reader) checkBodies(cfg *Config) {
	if !r.sound("bodies") {
		return
	}
	b := cfg.Bodies.Resolved(len(cfg.Sources))
	if cfg.Bodies.BodyGrace >= b.BodyTimeout {
		r.report.Add("bodies.grace: %s is not shorter than bodies.timeout, %s: no body would ever be too slow; shorten it, or set bodies.least_rate to off",
			yamltree.FormatDuration(b.BodyGrace), yamltree.FormatDuration(b.BodyTimeout))
	}
	if b.SmallBodyReserve >= b.BodyBytes {
		r.report.Add("bodies.small_reserve: %s leaves nothing of bodies.memory, %s, to larger bodies; lower it", yamltree.FormatSize(b.SmallBodyReserve), yamltree.FormatSize(b.BodyBytes))
		return
	}
	if all := b.SourceReserve * int64(len(cfg.Sources)); all >= b.BodyBytes {
		r.report.Add("bodies.source_reserve: %s for each of %d sources leaves nothing of bodies.memory, %s; lower it", yamltree.FormatSize(b.SourceReserve), len(cfg.Sources), yamltree.FormatSize(b.BodyBytes))
		return
	}
	for _, s := range cfg.Sources {
		if !s.OverHTTP() {
			continue
		}
		largest := s.LargestBody()
		if needs, room := b.Needs(largest, len(cfg.Sources)); needs > room {
			s.node.FailKey("a body of max_body, %s, takes up to %s of bodies.memory, of which it can have %s: set bodies.memory to %s or lower max_body",
				yamltree.FormatSize(largest), yamltree.FormatSize((needs+1<<20-1)>>20<<20), yamltree.FormatSize(room>>20<<20), yamltree.FormatSize(sufficientMemory(cfg.Bodies, b.BodyBytes, largest, len(cfg.Sources))))
		}
	}
}

// sufficientMemory returns the smallest whole number of MiB, more than memory, in which a body of
// the given size fits.
func sufficientMemory(b receiver.BodyLimits, memory, size int64, sources int) int64 {
	for {
		memory = (memory>>20 + 1) << 20
		b.BodyBytes = memory
		if needs, room := b.Needs(size, sources); needs <= room {
			return memory
		}
	}
}

// byteRate is the form of a rate in bytes per second, such as 1KiB/s.
var byteRate = form[int64]{
	parse: func(s string) (int64, error) {
		size, ok := strings.CutSuffix(s, "/s")
		if !ok {
			return 0, errors.New("not a rate such as 1KiB/s")
		}
		return yamltree.PositiveSize(size)
	},
	show:   func(n int64) any { return yamltree.FormatSize(n) + "/s" },
	schema: exactly(jsonSchema{"type": "string", "pattern": "^[0-9]+ *([KMG]iB|[kMG]?B)?/s$"}),
}

// LargestBody returns the largest accepted body in bytes.
func (s *Source) LargestBody() int64 {
	if s.MaxBody > 0 || s.Provider == nil {
		return s.MaxBody
	}
	return s.Provider.Limits().MaxBody
}
