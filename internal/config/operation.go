package config

import (
	"errors"
	"fmt"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/oncegate/oncegate/internal/yamltree"
)

// Operation contains the settings that only sources of operations have.
type Operation struct {
	// Key is the recipe of a call's key: fields such as header.Run-Id or body.step. If it is empty,
	// the caller must send an Idempotency-Key.
	Key []string
	// MinKey is the minimum length, in characters, of a key that the caller chooses. Zero means no
	// limit.
	MinKey int
	// NewKeys limits the new keys per minute in this process. Zero means no limit.
	NewKeys int
	// Wait is the longest wait that `Prefer: wait` can request. Zero means 30 s, and -1 disables
	// waiting.
	Wait time.Duration
	// Repeats configures the detection of calls that are repeated under another key.
	Repeats Repeats
}

// longestWait is what remains of the server's WriteTimeout after the gate's deadline.
const longestWait = 45 * time.Second

// operation reads the section operation and configures the source's provider to use the recipe.
// Call it after the source's provider is known.
func (r *reader) operation(s *Source, n *yamltree.Node) {
	if n == nil {
		return
	}
	if s.Provider != nil && !s.Provider.IsOperation() {
		n.Fail("goes only with a provider of operations, which %s is not", s.Provider.Name())
		return
	}
	n.Fields(map[string]func(*yamltree.Node){
		"key":      func(n *yamltree.Node) { s.Operation.Key = recipeFields(n) },
		"min_key":  yamltree.Value(&s.Operation.MinKey, minKey),
		"new_keys": yamltree.Integer(&s.Operation.NewKeys, 1),
		"wait":     yamltree.Value(&s.Operation.Wait, waitOrOff),
		"repeats":  s.Operation.Repeats.read,
	})
	key := n.Member("key")
	if key == nil || s.Provider == nil || !n.Sound() {
		return
	}
	p, err := s.Provider.WithRecipe(s.Operation.Key)
	if err != nil {
		failLines(key, err)
		return
	}
	s.Provider = p
}

func waitOrOff(s string) (time.Duration, error) {
	if s == "off" {
		return -1, nil
	}
	d, err := yamltree.PositiveDuration(s)
	if err == nil && d > longestWait {
		err = fmt.Errorf("longer than %s", yamltree.FormatDuration(longestWait))
	}
	return d, err
}

// answerDuplicates parses the setting for the answer to duplicates: outcome is true, acknowledge is
// false.
func answerDuplicates(s string) (bool, error) {
	switch s {
	case "outcome":
		return true, nil
	case "acknowledge":
		return false, nil
	}
	return false, errors.New("unknown; known are acknowledge, outcome")
}

func (o *Operation) append(to yaml.MapSlice) yaml.MapSlice {
	out := yaml.MapSlice{}
	if len(o.Key) > 0 {
		out = append(out, item("key", o.Key))
	}
	out = number(out, "min_key", int64(o.MinKey))
	out = number(out, "new_keys", int64(o.NewKeys))
	if o.Wait < 0 {
		out = append(out, item("wait", "off"))
	} else {
		out = duration(out, "wait", o.Wait)
	}
	if o.Repeats.Within > 0 {
		out = append(out, item("repeats", o.Repeats.effective()))
	}
	if len(out) == 0 {
		return to
	}
	return append(to, item("operation", out))
}
