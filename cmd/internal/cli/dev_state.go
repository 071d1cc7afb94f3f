package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/oncegate/oncegate/internal/config"
)

// devSecret returns the fixed secret of a source of `oncegate dev`, or "" if it has no such source.
// These secrets are public and protect nothing.
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

// devExamples are the example sources of `oncegate dev`, each with the name of its provider.
var devExamples = [...]string{"stripe", "github", "shopify", "slack", "standard-webhooks"}

// devEnviron returns the variables to which the example sources refer.
func devEnviron() []string {
	var out []string
	for _, source := range devExamples {
		out = append(out, devVariable(source)+"="+devSecret(source))
	}
	return out
}

// devState describes to other commands how to reach the running `oncegate dev`.
type devState struct {
	Public      string `json:"public"`
	Admin       string `json:"admin"`
	DatabaseURL string `json:"database_url"`
	Schema      string `json:"schema"`

	// Config is the path of the configuration file; it is empty for the built-in configuration.
	Config string `json:"config,omitempty"`

	// Sources are the sources that take deliveries.
	Sources []devSource `json:"sources,omitempty"`
}

// devSource describes a source to `oncegate send`. It names the secret and does not contain it.
type devSource struct {
	Name     string `json:"name"`
	Provider string `json:"provider"`
	Secret   string `json:"secret,omitempty"` // where the newest secret is, such as env:NAME
}

// devSources describes the sources of a configuration.
func devSources(cfg *config.Config) []devSource {
	out := make([]devSource, len(cfg.Sources))
	for i, source := range cfg.Sources {
		out[i] = devSource{Name: source.Name, Provider: source.Provider.Name(), Secret: secretPlace(source)}
	}
	return out
}

// secretPlace returns where the newest secret of a source is, or "".
func secretPlace(source *config.Source) string {
	if len(source.Secrets) == 0 {
		return ""
	}
	return source.Secrets[0].From
}

// devDir returns the directory of the state file of `oncegate dev`: ONCEGATE_DEV_DIR, or
// .oncegate/dev below the working directory.
func (s *shell) devDir() string {
	if dir := s.env("ONCEGATE_DEV_DIR"); dir != "" {
		return dir
	}
	return filepath.Join(".oncegate", "dev")
}

func (s *shell) readDevState() (devState, bool) { return devPlace{dir: s.devDir()}.read() }

// devPlace is the directory of the state file of one `oncegate dev`. Several may run from one
// working directory.
type devPlace struct {
	dir    string
	number int // from 1
}

// maxDevPlaces is the most places that are tried.
const maxDevPlaces = 100

// devPlace takes the first free place: the directory itself, otherwise <directory>-2 and so on. The
// place is free again when this process has ended, even if it was killed.
func (s *shell) devPlace() (devPlace, func(), error) {
	for number := 1; number <= maxDevPlaces; number++ {
		place := devPlace{dir: s.devDir(), number: number}
		if number > 1 {
			place.dir = fmt.Sprintf("%s-%d", s.devDir(), number)
		}
		if err := os.MkdirAll(place.dir, 0o700); err != nil {
			return place, nil, fmt.Errorf("making the development directory: %w", err)
		}
		held, err := os.OpenFile(filepath.Join(place.dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return place, nil, fmt.Errorf("locking the development directory: %w", err)
		}
		if lockFile(held) {
			return place, func() { _ = held.Close() }, nil
		}
		_ = held.Close()
	}
	return devPlace{}, nil, usagef("%d of `oncegate dev` run from this directory: set ONCEGATE_DEV_DIR to another one", maxDevPlaces)
}

// apart separates a second `oncegate dev` from the first, unless the environment specifies what to
// use: it takes free ports, and another schema in the same database.
func (s *shell) apart(cfg *config.Config, place devPlace) {
	if place.number == 1 {
		return
	}
	if s.env("PORT") == "" && s.env("ONCEGATE_PUBLIC") == "" {
		cfg.Listen.Public = "127.0.0.1:0"
	}
	if s.env("ONCEGATE_ADMIN") == "" {
		cfg.Listen.Admin = "127.0.0.1:0"
	}
	if s.env("ONCEGATE_SCHEMA") == "" {
		cfg.Database.Schema = fmt.Sprintf("%s_dev_%d", cfg.Database.Schema, place.number)
	}
}

func (p devPlace) statePath() string { return filepath.Join(p.dir, "state.json") }

func (p devPlace) read() (devState, bool) {
	content, err := os.ReadFile(p.statePath())
	if err != nil {
		return devState{}, false
	}
	var state devState
	if err := json.Unmarshal(content, &state); err != nil {
		return devState{}, false
	}
	return state, state.Public != "" && state.DatabaseURL != ""
}

// write replaces the file in one step. Only the owner can read the file because it contains a
// database URL.
func (p devPlace) write(state devState) error {
	content, err := json.MarshalIndent(state, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the development state: %w", err)
	}
	next := p.statePath() + ".new"
	if err := os.WriteFile(next, append(content, '\n'), 0o600); err != nil {
		return fmt.Errorf("writing the development state: %w", err)
	}
	if err := os.Rename(next, p.statePath()); err != nil {
		return fmt.Errorf("writing the development state: %w", err)
	}
	return nil
}
