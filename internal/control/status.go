package control

import (
	"context"
	"strings"
	"time"

	"github.com/oncegate/oncegate/inbox/buffer"
	"github.com/oncegate/oncegate/migrations"
)

// Status is the state of the server that answers.
type Status struct {
	// Version is the version of the program that answers.
	Version string `json:"version"`

	// Schema is the version of the tables. SchemaKnown is the version that the program knows.
	Schema      int `json:"schema"`
	SchemaKnown int `json:"schema_known"`

	// Ready says that the process is ready now. It is absent if no server answers.
	Ready *bool `json:"ready,omitempty"`

	// Problems say why the process is not ready, one line for each failed check.
	Problems []string `json:"problems,omitempty"`

	// Buffer is the state of the buffer. It is absent without a buffer, if the process does not receive, and for an access that is limited to a tenant.
	Buffer *buffer.Status `json:"buffer,omitempty"`

	// Time is when the status was read, by the program's clock.
	Time time.Time `json:"time"`
}

// ShowStatus shows the status of the server that answers.
var ShowStatus = Operation[NoRequest, *Status]{
	ID: "show_status", Method: "GET", Path: "/status", Scope: ReadMetadata,
	Summary: "Show the version, the schema, the readiness and the buffer of the server that answers.",
	Do: func(ctx context.Context, s *Service, access Access, _ NoRequest) (*Status, error) {
		schema, err := migrations.Read(ctx, s.cfg.Lists)
		if err != nil {
			return nil, err
		}
		out := &Status{Version: s.cfg.Version, Schema: schema.Current, SchemaKnown: migrations.Version, Time: s.cfg.Now()}
		if s.cfg.Ready != nil {
			err := s.cfg.Ready(ctx)
			ready := err == nil
			out.Ready = &ready
			if err != nil {
				out.Problems = strings.Split(err.Error(), "\n")
			}
		}
		if s.cfg.Buffer != nil && access.Tenant == "" {
			out.Buffer = s.cfg.Buffer(ctx)
		}
		return out, nil
	},
}
