package cli

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/internal/control"
	"github.com/oncegate/oncegate/providers"
)

func (s *shell) refusalsCommand() *cobra.Command {
	return group("refusals", "List, show or verify again refused deliveries",
		s.refusalsListCommand(), s.refusalsShowCommand(), s.refusalsReverifyCommand())
}

func (s *shell) refusalsListCommand() *cobra.Command {
	list := newList(s, &control.ListRefusals, &refusalColumns, &cobra.Command{
		Short: "List refused deliveries, newest first",
		Long: "List refused deliveries, newest first, with the cause of each.\n\n" +
			"Deliveries whose signature did not match are kept whole, and some of them are diagnosed. Of all\n" +
			"others a sample is kept, without content.",
	})
	restrict(list.Command, "cause", receiver.Causes())
	return list.Command
}

var refusalColumns = columns[inbox.RefusalRow]{
	header: []string{"RECEIVED", "SOURCE", "CAUSE", "DIAGNOSIS", "FROM", "BYTES", "KEPT", "ID"},
	spare:  []string{"BYTES", "FROM", "KEPT"}, ids: []string{"ID"}, whole: []string{"RECEIVED", "CAUSE"},
	cells: func(row *inbox.RefusalRow) []any {
		return []any{row.ReceivedAt, row.Source, row.Cause, row.Diagnosis, row.Remote, row.Size, onlyIf(row.Whole, "whole"), row.ID}
	},
	entry: func(row *inbox.RefusalRow) listEntry {
		return listEntry{IDs: map[string]string{kindRefusal: row.ID.String()}, Name: row.Source + " " + row.Cause}
	},
}

func (s *shell) refusalsShowCommand() *cobra.Command {
	var body, request bool
	cmd := &cobra.Command{
		Use: "show <id>", Short: "Show one refused delivery", Args: cobra.ExactArgs(1),
		Long: "Show one refused delivery. --request writes what was kept of it as raw HTTP. Pass it to `oncegate\n" +
			"providers verify` to verify it with another secret.",
		Example: "  oncegate refusals show 0199... --request | oncegate providers verify stripe --request - --secret-env NEW_SECRET --at 2026-11-20T12:00:00Z",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := inbox.ParseID(args[0])
			if err != nil {
				return usagef("%q is not a refusal's id; `oncegate refusals list` shows them", clean(args[0]))
			}
			if body && request {
				return usagef("--body and --request exclude each other")
			}
			return s.control(cmd.Context(), "", func(caller control.Caller) error {
				var content control.Content
				if body || request {
					if content, err = control.Call(cmd.Context(), caller, &control.ReadRefusalBody, control.IDRequest{ID: id}); err != nil || body {
						return s.writeContent(content, err)
					}
				}
				refusal, err := control.Call(cmd.Context(), caller, &control.ShowRefusal, control.IDRequest{ID: id})
				switch {
				case err != nil:
					return err
				case request:
					_, err = s.out.Write(rawHTTP(&providers.Request{
						Method: refusal.Method, URL: refusal.URL, Header: http.Header(refusal.Headers), Body: content.Bytes,
					}))
					return err
				}
				return s.showRefusal(refusal)
			})
		},
	}
	cmd.Flags().BoolVar(&body, "body", false, "write the exact body, and nothing else")
	cmd.Flags().BoolVar(&request, "request", false, "write the kept request as raw HTTP, and nothing else")
	return cmd
}

func (s *shell) showRefusal(r *control.Refusal) error {
	if s.output == "json" {
		return s.json(r)
	}
	kept := fmt.Sprintf("%d bytes, kept whole", r.Size)
	if !r.Whole {
		kept = fmt.Sprintf("%d bytes, not kept", r.Size)
	}
	page(s.out, []pair{
		{"refusal", r.ID.String()},
		{"source", r.Source},
		{"tenant", r.Tenant},
		{"provider", r.Provider},
		{"received", clock(r.ReceivedAt)},
		{"cause", r.Cause},
		{"diagnosis", r.Diagnosis},
		{"request", strings.TrimSpace(r.Method + " " + r.URL)},
		{"from", r.Remote},
		{"body", kept},
	})
	names := make([]string, 0, len(r.Headers))
	for name := range r.Headers {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		for _, value := range r.Headers[name] {
			fmt.Fprintln(s.out, clean("header "+name+": "+value))
		}
	}
	s.sayHidden(r.PayloadHidden)
	return nil
}
