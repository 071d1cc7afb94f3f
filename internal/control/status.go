package control

import (
	"context"
	"strings"
	"time"

	"github.com/oncegate/oncegate/migrations"
)

// Status is what a page of status asks first.
type Status struct {
	// Version is that of the program that answers.
	Version string `json:"version"`

	// Schema is the version of the tables, and SchemaKnown the one that the program knows.
	Schema      int `json:"schema"`
	SchemaKnown int `json:"schema_known"`

	// Ready says that the process can keep its promise now. It is absent where no server answers.
	Ready *bool `json:"ready,omitempty"`

	// Problems say why it cannot, one line for each check that fails.
	Problems []string `json:"problems,omitempty"`

	// Time is when this was asked, by the clock of the program.
	Time time.Time `json:"time"`
}

// ShowStatus shows the status of the server that answers.
var ShowStatus = Operation[NoRequest, *Status]{
	ID: "show_status", Method: "GET", Path: "/status", Scope: ReadMetadata,
	Summary: "Show the version, the schema and the readiness of the server that answers.",
	Do: func(ctx context.Context, s *Service, _ Access, _ NoRequest) (*Status, error) {
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
		return out, nil
	},
}
