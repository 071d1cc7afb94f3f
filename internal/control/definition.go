package control

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/oncegate/oncegate/inbox/definition"
	"github.com/oncegate/oncegate/inbox/node"
	"github.com/oncegate/oncegate/internal/config"
)

// CreateSourceRequest defines a source in the database.
type CreateSourceRequest struct {
	Explained `required:"reason"`

	// Name is the name of the source.
	Name string `json:"name" required:"true"`

	// Definition is what the configuration file would have below the name of the source: provider, secrets, routes and so on. It
	// contains the secrets themselves, not references. Its routes lead to targets of the file.
	Definition json.RawMessage `json:"definition" required:"true"`
}

// UpdateSourceRequest changes a source of the database.
type UpdateSourceRequest struct {
	Explained `required:"reason"`

	// Name is the name of the source.
	Name string `json:"name" required:"true"`

	// Change is a JSON merge patch (RFC 7396) for the definition: each member replaces the same member of the definition, null
	// removes a member, and a list replaces the whole list.
	Change json.RawMessage `json:"change" required:"true"`
}

// EnableSourceRequest names a source of the database that is enabled or disabled.
type EnableSourceRequest struct {
	Explained `required:"reason"`

	// Name is the name of the source.
	Name string `json:"name" required:"true"`
}

// SourceDefinition is a source of the database without its content.
type SourceDefinition struct {
	// Name is the name of the source. Address is the path to which its sender posts, below the address of the public listener.
	Name    string `json:"name"`
	Address string `json:"address"`

	// Enabled says that the source takes deliveries. A disabled one answers as if there were none.
	Enabled bool `json:"enabled"`

	// Revision is the revision of all sources of the database in which this one was changed last.
	Revision int64 `json:"revision"`

	// Changed says that the request has changed the source. It is false if the source was like that before.
	Changed bool `json:"changed"`

	// Warnings are the warnings about the definition that the request asks for, such as an event type that the sender does not have.
	// Operations that only show the source answer with none.
	Warnings []string `json:"warnings"`

	// CreatedAt and UpdatedAt are when the source was defined and changed last. By and Reason are who changed it last, and why.
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
	By        string    `json:"by"`
	Reason    string    `json:"reason"`

	// Processes is the number of live processes that receive deliveries for the sources of the database. Behind is how many of them
	// have not taken over this revision yet. When it is 0, the change is in force everywhere.
	Processes int64 `json:"processes"`
	Behind    int64 `json:"behind"`
}

// CreateSource defines a source in the database.
var CreateSource = Operation[CreateSourceRequest, SourceDefinition]{
	ID: "create_source", Method: "POST", Path: "/sources", Scope: Admin,
	Summary: "Define a source in the database. Every server takes it over within seconds, without a restart: it is served when show_definition answers behind: 0. The same request again changes nothing.",
	Why:     "why is the source needed?",
	Do: func(ctx context.Context, s *Service, access Access, r CreateSourceRequest) (SourceDefinition, error) {
		content, err := object("definition", r.Definition)
		if err != nil {
			return SourceDefinition{}, err
		}
		return s.define(ctx, access, r.Name, r.Reason, func(now *definition.Definition) (definition.Definition, error) {
			if now != nil && !bytes.Equal(now.Content, content) {
				return definition.Definition{}, &Problem{Code: CodeConflict, Detail: fmt.Sprintf("source %q exists with another definition; update it instead", r.Name)}
			}
			return definition.Definition{Content: content, Enabled: now == nil || now.Enabled}, nil
		})
	},
}

// UpdateSource changes a source of the database.
var UpdateSource = Operation[UpdateSourceRequest, SourceDefinition]{
	ID: "update_source", Method: "POST", Path: "/sources/{name}/update", Scope: Admin,
	Summary: "Change a source of the database with a JSON merge patch (RFC 7396). The same request again changes nothing.",
	Why:     "why is the source changed?",
	Do: func(ctx context.Context, s *Service, access Access, r UpdateSourceRequest) (SourceDefinition, error) {
		if _, err := object("change", r.Change); err != nil {
			return SourceDefinition{}, err
		}
		return s.define(ctx, access, r.Name, r.Reason, func(now *definition.Definition) (next definition.Definition, err error) {
			if now == nil {
				return next, notStored(r.Name)
			}
			next.Enabled = now.Enabled
			next.Content, err = mergePatch(now.Content, r.Change)
			return next, err
		})
	},
}

// DisableSource has a source of the database answer as if there were none.
var DisableSource = Operation[EnableSourceRequest, SourceDefinition]{
	ID: "disable_source", Method: "POST", Path: "/sources/{name}/disable", Scope: Admin,
	Summary: "Have a source of the database answer as if there were none (404). The effects of its recorded events continue. pause_source keeps the deliveries at the sender instead.",
	Why:     "why does it take no deliveries any more?",
	Do: func(ctx context.Context, s *Service, access Access, r EnableSourceRequest) (SourceDefinition, error) {
		return s.enable(ctx, access, r, false)
	},
}

// EnableSource has a disabled source of the database take deliveries again.
var EnableSource = Operation[EnableSourceRequest, SourceDefinition]{
	ID: "enable_source", Method: "POST", Path: "/sources/{name}/enable", Scope: Admin,
	Summary: "Have a disabled source of the database take deliveries again.",
	Why:     "why does it take deliveries again?",
	Do: func(ctx context.Context, s *Service, access Access, r EnableSourceRequest) (SourceDefinition, error) {
		return s.enable(ctx, access, r, true)
	},
}

// ShowDefinition shows when and by whom a source of the database was changed, and whether every process serves it.
var ShowDefinition = Operation[SourceReference, SourceDefinition]{
	ID: "show_definition", Method: "GET", Path: "/sources/{name}/definition", Scope: ReadMetadata,
	Summary: "Show when and by whom a source of the database was changed last, and whether every process serves that. It contains no secret.",
	Do: func(ctx context.Context, s *Service, access Access, r SourceReference) (out SourceDefinition, err error) {
		if err := access.untenanted("sources of the database"); err != nil {
			return out, err
		}
		found, err := definition.Find(ctx, s.cfg.Lists, s.cfg.Keyring, r.Name)
		switch {
		case err != nil:
			return out, err
		case found == nil:
			return out, notStored(r.Name)
		}
		return s.definition(ctx, found)
	},
}

func (s *Service) enable(ctx context.Context, access Access, r EnableSourceRequest, enabled bool) (SourceDefinition, error) {
	return s.define(ctx, access, r.Name, r.Reason, func(now *definition.Definition) (definition.Definition, error) {
		if now == nil {
			return definition.Definition{}, notStored(r.Name)
		}
		return definition.Definition{Content: now.Content, Enabled: enabled}, nil
	})
}

// define changes the definition of one source to what edit returns, if a server could take it over.
func (s *Service) define(ctx context.Context, access Access, name, reason string, edit func(*definition.Definition) (definition.Definition, error)) (out SourceDefinition, err error) {
	if err := access.untenanted("sources of the database"); err != nil {
		return out, err
	}
	if s.cfg.CheckDefinition == nil {
		return out, invalid("this process has no configuration with which it could check the source: name the file, or ask a server")
	}
	if s.cfg.Keyring.Ring() == nil {
		return out, invalid("%v", definition.ErrUnsealed)
	}
	warnings := []string{}
	defined, changed, err := definition.Change(ctx, s.cfg.Pool, s.cfg.Keyring, name, definition.Decision{Actor: access.Actor, Reason: reason}, func(now *definition.Definition) (definition.Definition, error) {
		next, err := edit(now)
		if err == nil {
			warnings, err = s.cfg.CheckDefinition(ctx, config.Definition{Name: name, Disabled: !next.Enabled, Content: next.Content})
		}
		return next, err
	})
	if err != nil {
		return out, err
	}
	out, err = s.definition(ctx, &defined)
	out.Changed, out.Warnings = changed, warnings
	return out, err
}

// definition describes a definition.
func (s *Service) definition(ctx context.Context, d *definition.Definition) (out SourceDefinition, err error) {
	out = SourceDefinition{
		Name: d.Name, Address: "/in/" + d.Name, Enabled: d.Enabled, Revision: d.Revision,
		CreatedAt: d.CreatedAt, UpdatedAt: d.UpdatedAt, By: d.By, Reason: d.Reason, Warnings: []string{},
	}
	out.Processes, out.Behind, err = definition.Behind(ctx, s.cfg.Pool, d.Revision, node.Silence)
	return out, err
}

func notStored(name string) error {
	return &Problem{Code: CodeNotFound, Detail: fmt.Sprintf("the database has no source named %q; a source of the configuration file is changed there", name)}
}
