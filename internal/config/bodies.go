package config

import (
	"errors"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/internal/yamltree"
)

func (r *reader) bodies(cfg *Config, n *yamltree.Node) {
	b := &cfg.Bodies
	n.Fields(map[string]func(*yamltree.Node){
		"memory":         yamltree.Size(&b.BodyBytes),
		"timeout":        yamltree.Duration(&b.BodyTimeout),
		"least_rate":     yamltree.Value(&b.LeastBodyRate, byteRate),
		"grace":          yamltree.Duration(&b.BodyGrace),
		"small":          yamltree.Size(&b.SmallBody),
		"small_reserve":  yamltree.Value(&b.SmallBodyReserve, sizeOrOff),
		"source_reserve": yamltree.Value(&b.SourceReserve, sizeOrOff),
		"peer_memory":    yamltree.Size(&b.PeerBodyBytes),
	})
}

func (r *reader) bodiesEnvironment(cfg *Config) {
	b := &cfg.Bodies
	override(r, "ONCEGATE_BODIES_MEMORY", &b.BodyBytes, yamltree.PositiveSize)
	override(r, "ONCEGATE_BODIES_TIMEOUT", &b.BodyTimeout, yamltree.PositiveDuration)
	override(r, "ONCEGATE_BODIES_LEAST_RATE", &b.LeastBodyRate, byteRate)
	override(r, "ONCEGATE_BODIES_GRACE", &b.BodyGrace, yamltree.PositiveDuration)
	override(r, "ONCEGATE_BODIES_SMALL", &b.SmallBody, yamltree.PositiveSize)
	override(r, "ONCEGATE_BODIES_SMALL_RESERVE", &b.SmallBodyReserve, sizeOrOff)
	override(r, "ONCEGATE_BODIES_SOURCE_RESERVE", &b.SourceReserve, sizeOrOff)
	override(r, "ONCEGATE_BODIES_PEER_MEMORY", &b.PeerBodyBytes, yamltree.PositiveSize)
}

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
		largest := s.MaxBody
		if largest == 0 && s.Provider != nil {
			largest = s.Provider.Limits().MaxBody
		}
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

func sizeOrOff(s string) (int64, error) {
	if s == "off" {
		return -1, nil
	}
	n, err := yamltree.PositiveSize(s)
	if err != nil {
		err = errors.New("neither a size such as 8MiB nor off")
	}
	return n, err
}

// byteRate parses a rate in bytes per second, such as 1KiB/s, or off, which is -1.
func byteRate(s string) (int64, error) {
	if s == "off" {
		return -1, nil
	}
	size, ok := strings.CutSuffix(s, "/s")
	n, err := yamltree.PositiveSize(size)
	if !ok || err != nil {
		return 0, errors.New("neither a rate such as 1KiB/s nor off")
	}
	return n, nil
}

// effectiveBodies returns the limits for bodies that differ from their defaults.
func (c *Config) effectiveBodies() yaml.MapSlice {
	b := &c.Bodies
	reserve := func(to yaml.MapSlice, key string, n int64) yaml.MapSlice {
		if n < 0 {
			return append(to, item(key, "off"))
		}
		return number(to, key, n)
	}
	out := number(nil, "memory", b.BodyBytes)
	out = duration(out, "timeout", b.BodyTimeout)
	switch {
	case b.LeastBodyRate < 0:
		out = append(out, item("least_rate", "off"))
	case b.LeastBodyRate > 0:
		out = append(out, item("least_rate", yamltree.FormatSize(b.LeastBodyRate)+"/s"))
	}
	out = duration(out, "grace", b.BodyGrace)
	out = number(out, "small", b.SmallBody)
	out = reserve(out, "small_reserve", b.SmallBodyReserve)
	out = reserve(out, "source_reserve", b.SourceReserve)
	return number(out, "peer_memory", b.PeerBodyBytes)
}
