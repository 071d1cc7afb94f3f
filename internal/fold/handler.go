package fold

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"
)

// Mode selects which lines are folded.
type Mode string

// The modes.
const (
	// All writes every line, except those in [Config.Hostile], which are folded.
	All Mode = "all"

	// Sampled writes the first ordinary line of a kind in each [Every], and the first [Burst] lines
	// of every other kind.
	Sampled Mode = "sampled"

	// Errors is like Sampled, but drops all ordinary lines, because metrics count the same
	// deliveries and effects.
	Errors Mode = "errors"
)

// Parse parses a mode.
func Parse(s string) (Mode, error) {
	if mode := Mode(s); slices.Contains([]Mode{All, Sampled, Errors}, mode) {
		return mode, nil
	}
	return "", errors.New("unknown; known are all, sampled, errors")
}

const (
	// Every is the period in which the number of written lines of one kind is limited.
	Every = 10 * time.Second

	// Burst is how many lines of a kind are written per period, unless they are ordinary: of
	// ordinary lines, one is written.
	Burst = 10

	// Summary is the interval between summaries of the folded lines.
	Summary = time.Minute

	// Message is the message of a summary line. Its attribute "of" contains the message of the
	// folded lines, "lines" their number, and "since" when counting began.
	Message = "lines like this were folded"

	// mostKinds limits memory use: once there are this many kinds, new kinds are distinguished by
	// message and level only.
	mostKinds = 1000
)

// Config configures a [Handler]. Next is required.
type Config struct {
	// Next writes the lines that are not folded.
	Next slog.Handler

	// Mode defaults to Sampled.
	Mode Mode

	// Hostile contains the messages of lines that anybody can cause without a secret. These lines
	// are never ordinary, and are folded in every mode.
	Hostile []string

	// Now provides the time of the summaries; other lines have their own time. It defaults to
	// time.Now.
	Now func() time.Time
}

// Handler is an [slog.Handler] that folds repeated lines. An ordinary line is a line at level info
// about one delivery or effect: it has an attribute "event", "effect" or "request". Lines below
// info are never folded. Handler is safe for concurrent use.
type Handler struct {
	next  slog.Handler
	kinds *kinds
	with  []slog.Attr // attributes added by WithAttrs
	plain bool        // inside a group; attributes there do not determine a kind
}

// New returns a Handler, which writes summaries until [Handler.Close] is called.
func New(cfg Config) (*Handler, error) {
	if cfg.Next == nil {
		return nil, errors.New("folding needs a handler that writes")
	}
	if cfg.Mode == "" {
		cfg.Mode = Sampled
	}
	if _, err := Parse(string(cfg.Mode)); err != nil {
		return nil, err
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	h := &Handler{next: cfg.Next, kinds: newKinds(cfg)}
	go h.kinds.run()
	return h, nil
}

// Close writes the last summaries. Lines logged afterwards are written instead of folded.
func (h *Handler) Close() { h.kinds.close() }

// Enabled implements [slog.Handler].
func (h *Handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// WithAttrs implements [slog.Handler].
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &Handler{next: h.next.WithAttrs(attrs), kinds: h.kinds, with: slices.Concat(h.with, attrs), plain: h.plain}
}

// WithGroup implements [slog.Handler].
func (h *Handler) WithGroup(name string) slog.Handler {
	return &Handler{next: h.next.WithGroup(name), kinds: h.kinds, with: h.with, plain: true}
}

// Handle implements [slog.Handler].
func (h *Handler) Handle(ctx context.Context, r slog.Record) error { //nolint:gocritic // the interface's
	if r.Level < slog.LevelInfo || !h.kinds.takes(h.name(&r), r.Time) {
		return h.next.Handle(ctx, r)
	}
	return nil
}

// name returns the kind of a line.
func (h *Handler) name(r *slog.Record) kind {
	k := kind{level: r.Level, message: r.Message}
	if h.plain {
		return k
	}
	for _, a := range h.with {
		k.add(a)
	}
	r.Attrs(func(a slog.Attr) bool { k.add(a); return true })
	return k
}

// kind consists of the properties that lines folded together have in common.
type kind struct {
	level                                           slog.Level
	message, source, route, target, outcome, reason string
	single                                          bool // the line is about one delivery or effect
}

func (k *kind) add(a slog.Attr) {
	var into *string
	switch a.Key {
	case "event", "effect", "request":
		k.single = true
		return
	case "source":
		into = &k.source
	case "route":
		into = &k.route
	case "target":
		into = &k.target
	case "outcome":
		into = &k.outcome
	case "reason":
		into = &k.reason
	default:
		return
	}
	if a.Value.Kind() == slog.KindString {
		*into = a.Value.String()
	}
}

func (k *kind) attrs(lines int64, since time.Time) []slog.Attr {
	out := []slog.Attr{slog.String("of", k.message), slog.Int64("lines", lines), slog.Time("since", since)}
	for _, a := range []slog.Attr{
		slog.String("source", k.source), slog.String("route", k.route), slog.String("target", k.target),
		slog.String("outcome", k.outcome), slog.String("reason", k.reason),
	} {
		if a.Value.String() != "" {
			out = append(out, a)
		}
	}
	return out
}

// before orders kinds for the summary.
func before(a, b kind) int {
	return strings.Compare(a.message+"\x00"+a.source+"\x00"+a.route+"\x00"+a.target+"\x00"+a.outcome+"\x00"+a.reason,
		b.message+"\x00"+b.source+"\x00"+b.route+"\x00"+b.target+"\x00"+b.outcome+"\x00"+b.reason)
}
