package control

import (
	"context"

	"github.com/oncegate/oncegate/internal/config"
)

// ReloadRequest asks for a reload.
type ReloadRequest struct {
	// DryRun reads and checks the configuration, and says what would change, without applying it.
	DryRun bool `json:"dry_run,omitempty" flag:"--dry-run say what would change, and apply nothing"`
}

// Reloaded says which configuration a process runs after a reload.
type Reloaded struct {
	// DryRun says that nothing was applied.
	DryRun bool `json:"dry_run"`

	// Configuration is the fingerprint of the configuration that the process has read, and runs unless this was a dry
	// run. Before is the fingerprint of the one before. They are equal if only secrets and settings of the single
	// process differ.
	Configuration string `json:"configuration"`
	Before        string `json:"before"`

	// Changes are the keys that differ. A reference whose file has another content is one of them.
	Changes []config.Change `json:"changes"`

	// Warnings are the warnings about the new configuration.
	Warnings []string `json:"warnings"`
}

// ReloadConfiguration has the process that answers read its configuration again.
var ReloadConfiguration = Operation[ReloadRequest, Reloaded]{
	ID: "reload_configuration", Method: "POST", Path: "/reload", Scope: Admin,
	Summary: "Have the server that answers read its configuration file and its secrets again. If it cannot apply them, it keeps the configuration that it has.",
	Do: func(ctx context.Context, s *Service, access Access, r ReloadRequest) (out Reloaded, err error) {
		if err := access.untenanted("the configuration"); err != nil {
			return out, err
		}
		if s.cfg.Reload == nil {
			return out, invalid("this process cannot read its configuration again: restart it")
		}
		return s.cfg.Reload(ctx, r, access.Actor)
	},
}
