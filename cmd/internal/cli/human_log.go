package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// human is the log of `oncegate dev`: one readable line for each thing that happens to an event. It
// shows other records only if they are warnings or errors.
type human struct {
	mu      *sync.Mutex
	out     io.Writer
	level   slog.Level
	colours bool
	attrs   []slog.Attr

	// answer returns the target's answer to the last attempt of an effect. It may be nil.
	answer func(effect string) string

	// last is the last delivery whose event is known.
	last *lastDelivery

	// named maps the ids of the last events to their names, because the worker logs only Oncegate's
	// id.
	named *recent
}

func newHuman(out io.Writer, level slog.Level, colours bool) *human {
	return &human{mu: &sync.Mutex{}, out: out, level: level, colours: colours, last: &lastDelivery{}, named: &recent{names: map[string]string{}}}
}

// lastDelivery is Oncegate's id of an event, and its source and name.
type lastDelivery struct{ event, name string }

// lastEvent returns the id and the name of the event that was delivered last, or "".
func (h *human) lastEvent() (id, name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last.event, h.last.name
}

// say prints a line of the command's own.
func (h *human) say(text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	fmt.Fprintln(h.out, time.Now().Format("15:04:05.000")+" "+clean(text))
}

// recent is a map of limited size. It drops the oldest entry first.
type recent struct {
	names map[string]string
	order []string
}

const remembered = 10_000

// put stores the name of an event unless there is one, because a conflict may have another type.
func (r *recent) put(id, name string) {
	if _, known := r.names[id]; known {
		return
	}
	r.order = append(r.order, id)
	r.names[id] = name
	if len(r.order) > remembered {
		delete(r.names, r.order[0])
		r.order = r.order[1:]
	}
}

// Enabled implements [slog.Handler].
func (h *human) Enabled(_ context.Context, level slog.Level) bool {
	return level >= min(h.level, slog.LevelInfo)
}

// WithAttrs implements [slog.Handler].
func (h *human) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := *h
	next.attrs = append(append([]slog.Attr{}, h.attrs...), attrs...)
	return &next
}

// WithGroup implements [slog.Handler]. It ignores groups.
func (h *human) WithGroup(string) slog.Handler { return h }

// Handle implements [slog.Handler].
func (h *human) Handle(_ context.Context, r slog.Record) error {
	values := map[string]string{}
	var rest []string
	collect := func(a slog.Attr) bool {
		values[a.Key] = a.Value.String()
		rest = append(rest, a.Key+"="+a.Value.String())
		return true
	}
	for _, a := range h.attrs {
		collect(a)
	}
	r.Attrs(collect)
	h.mu.Lock()
	defer h.mu.Unlock()
	if event := values["event"]; strings.HasPrefix(r.Message, "effect ") && h.named.names[event] == "" {
		// The worker's line came before the receiver's, or the event is from an earlier run. A
		// short delay decides which.
		time.AfterFunc(settling, func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			_ = h.write(r, values, rest)
		})
		return nil
	}
	return h.write(r, values, rest)
}

// settling is how long a line about an event without a name waits for the name.
const settling = 100 * time.Millisecond

// write prints one record. The caller must hold the mutex.
func (h *human) write(r slog.Record, values map[string]string, rest []string) error {
	line, colour := h.line(r, values, rest)
	if line == "" {
		return nil
	}
	line = clean(line)
	if h.colours && colour != "" {
		line = "\x1b[" + colour + "m" + line + "\x1b[0m"
	}
	_, err := fmt.Fprintln(h.out, r.Time.Format("15:04:05.000")+" "+line)
	return err
}

const (
	green  = "32"
	yellow = "33"
	red    = "31"
	grey   = "90"
)

func (h *human) line(r slog.Record, v map[string]string, rest []string) (line, colour string) {
	switch r.Message {
	case "event recorded", "event unusable", "duplicate recognised", "conflict recorded":
		name := strings.TrimSpace(v["id"] + " " + v["type"])
		h.named.put(v["event"], name)
		if r.Message != "conflict recorded" && v["event"] != "" {
			*h.last = lastDelivery{event: v["event"], name: v["source"] + " " + name}
		}
		colour = green
		switch r.Message {
		case "duplicate recognised":
			colour = grey
		case "conflict recorded", "event unusable":
			colour = yellow
		}
		return fmt.Sprintf("%-21s %s %s", r.Message, v["source"], name), colour
	case "effect done", "effect retried", "effect dead", "effect indeterminate":
		name := h.named.names[v["event"]]
		if name == "" {
			name = v["event"]
		}
		line = fmt.Sprintf("%-21s %s %s -> %s", r.Message, v["source"], name, v["target"])
		colour = green
		if h.answer != nil {
			if answer := h.answer(v["effect"]); answer != "" {
				line += " " + answer
			}
		}
		if r.Message != "effect done" {
			line += fmt.Sprintf(" (attempt %s: %s)", v["attempt"], v["reason"])
			colour = yellow
		}
		return line, colour
	case "delivery refused":
		detail := v["reason"]
		if v["detail"] != "" {
			detail += ": " + v["detail"]
		}
		return fmt.Sprintf("%-21s %s %s", r.Message, v["source"], detail), red
	}
	if r.Level < slog.LevelWarn && r.Level < h.level || r.Level == slog.LevelInfo && h.level == slog.LevelInfo {
		return "", ""
	}
	colour = grey
	if r.Level >= slog.LevelWarn {
		colour = yellow
	}
	return strings.ToLower(r.Level.String()) + ": " + r.Message + " " + strings.Join(rest, " "), colour
}
