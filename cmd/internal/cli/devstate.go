package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// devSecret is the fixed secret of a source of `oncegate dev`; empty if it has
// no such source. Everybody knows these: they protect nothing.
func devSecret(source string) string {
	switch source {
	case "stripe":
		return "whsec_oncegate_development_stripe"
	case "github":
		return "oncegate-development-github"
	case "shopify":
		return "oncegate-development-shopify"
	case "slack":
		return "oncegate-development-slack"
	case "standard-webhooks":
		return "whsec_b25jZWdhdGUtZGV2ZWxvcG1lbnQtc2VjcmV0LTMy" // base64 of "oncegate-development-secret-32"
	}
	return ""
}

// devEnviron are the variables that dev.yml refers to.
func devEnviron() []string {
	var out []string
	for _, source := range []string{"stripe", "github", "shopify", "slack", "standard-webhooks"} {
		name := "ONCEGATE_DEV_" + strings.ToUpper(strings.ReplaceAll(source, "-", "_")) + "_SECRET"
		out = append(out, name+"="+devSecret(source))
	}
	return out
}

// devState tells other commands where the running `oncegate dev` is.
type devState struct {
	Public      string `json:"public"`
	Admin       string `json:"admin"`
	DatabaseURL string `json:"database_url"`
	Schema      string `json:"schema"`
}

// devDir is where `oncegate dev` keeps its state file: ONCEGATE_DEV_DIR, or
// .oncegate/dev below the working directory.
func (s *shell) devDir() string {
	if dir := s.env("ONCEGATE_DEV_DIR"); dir != "" {
		return dir
	}
	return filepath.Join(".oncegate", "dev")
}

func (s *shell) devStatePath() string { return filepath.Join(s.devDir(), "state.json") }

func (s *shell) readDevState() (devState, bool) {
	content, err := os.ReadFile(s.devStatePath())
	if err != nil {
		return devState{}, false
	}
	var state devState
	if err := json.Unmarshal(content, &state); err != nil {
		return devState{}, false
	}
	return state, state.Public != "" && state.DatabaseURL != ""
}

// writeDevState replaces the file in one step. It holds a database url and is
// readable by its owner only.
func (s *shell) writeDevState(state devState) error {
	if err := os.MkdirAll(s.devDir(), 0o700); err != nil {
		return fmt.Errorf("making the development directory: %w", err)
	}
	content, err := json.MarshalIndent(state, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the development state: %w", err)
	}
	next := s.devStatePath() + ".new"
	if err := os.WriteFile(next, append(content, '\n'), 0o600); err != nil {
		return fmt.Errorf("writing the development state: %w", err)
	}
	if err := os.Rename(next, s.devStatePath()); err != nil {
		return fmt.Errorf("writing the development state: %w", err)
	}
	return nil
}
