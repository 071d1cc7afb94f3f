package cli

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/internal/control"
	"github.com/oncegate/oncegate/providers"
)

func (s *shell) refusalsCommand() *cobra.Command {
	return group("refusals", "List, show, acknowledge, verify again or erase refused deliveries",
		s.refusalsListCommand(), s.refusalsShowCommand(), s.refusalsAcknowledgeCommand(), s.refusalsReverifyCommand(), s.refusalsEraseCommand())
}

func (s *shell) refusalsListCommand() *cobra.Command {
	var grouped bool
	list := newList(s, &control.ListRefusals, &refusalColumns, &cobra.Command{
		Short: "List refused deliveries, newest first, or grouped",
		Long: "List refused deliveries, newest first, with the cause of each.\n\n" +
			"Deliveries whose signature did not match are kept whole, and some of them are diagnosed. Of all\n" +
			"others a sample is kept, without content. --group counts those that are kept by source, cause and\n" +
			"peer, and shows which of them you have acknowledged.",
	})
	restrict(list.Command, "cause", receiver.Causes())
	list.Command.Flags().BoolVar(&grouped, "group", false, "count them by source, cause and peer")
	list.check = func([]string) error {
		if grouped && list.request.Whole {
			return usagef("--group and --whole exclude each other")
		}
		return nil
	}
	list.instead = func(ctx context.Context, caller control.Caller) (done bool, err error) {
		if !grouped {
			return false, nil
		}
		groups, err := control.Call(ctx, caller, &control.GroupRefusals, list.request.RefusalFilter)
		return true, showGroups(s, list.Command, "refusals", &refusalGroupColumns, groups, err)
	}
	return list.Command
}

var refusalGroupColumns = columns[read.RefusalGroup]{
	header: []string{"KEPT", "SOURCE", "CAUSE", "FROM", "FIRST", "LAST", "ACKNOWLEDGED", "BY", "WHY", "DIAGNOSIS", "EXAMPLE"},
	spare:  []string{"WHY", "DIAGNOSIS", "BY", "FIRST", "EXAMPLE"}, ids: []string{"EXAMPLE"}, whole: []string{"KEPT", "CAUSE", "FIRST", "LAST"},
	cells: func(g *read.RefusalGroup) []any {
		return []any{
			read.CountOf(g.Count, g.More), g.Source, g.Cause, g.Peer, g.First, g.Last, g.AcknowledgedAt, g.AcknowledgedBy, cut(oneLine(g.AcknowledgedWhy), 60),
			cut(oneLine(g.Diagnosis), 60), g.Example,
		}
	},
	entry: func(g *read.RefusalGroup) listEntry {
		return listEntry{IDs: map[string]string{kindRefusal: g.Example.String()}, Name: g.Source + " " + g.Cause}
	},
}

var refusalColumns = columns[read.RefusalRow]{
	header: []string{"RECEIVED", "SOURCE", "CAUSE", "DIAGNOSIS", "FROM", "BYTES", "KEPT", "ID"},
	spare:  []string{"BYTES", "FROM", "KEPT"}, ids: []string{"ID"}, whole: []string{"RECEIVED", "CAUSE"},
	cells: func(row *read.RefusalRow) []any {
		return []any{row.ReceivedAt, row.Source, row.Cause, row.Diagnosis, row.Remote, row.Size, onlyIf(row.Whole, "whole"), row.ID}
	},
	entry: func(row *read.RefusalRow) listEntry {
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
			r := control.IDRequest{ID: id}
			switch {
			case body:
				return content(s, cmd, &control.ReadRefusalBody, r)
			case request:
				return s.writeRefused(cmd.Context(), r)
			}
			return answer(s, cmd, onDatabase{}, &control.ShowRefusal, r, s.showRefusal)
		},
	}
	cmd.Flags().BoolVar(&body, "body", false, "write the exact body, and nothing else")
	cmd.Flags().BoolVar(&request, "request", false, "write the kept request as raw HTTP, and nothing else")
	return cmd
}

// writeRefused writes what was kept of a refused request, as raw HTTP.
func (s *shell) writeRefused(ctx context.Context, r control.IDRequest) error {
	return s.control(ctx, "", func(caller control.Caller) error {
		body, err := control.Call(ctx, caller, &control.ReadRefusalBody, r)
		if err != nil {
			return err
		}
		refusal, err := control.Call(ctx, caller, &control.ShowRefusal, r)
		if err != nil {
			return err
		}
		_, err = s.out.Write(rawHTTP(&providers.Request{Method: refusal.Method, URL: refusal.URL, Header: http.Header(refusal.Headers), Body: body.Bytes}))
		return err
	})
}

func (s *shell) showRefusal(r *control.Refusal) error {
	kept := "kept whole"
	if !r.Whole {
		kept = "not kept"
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
		{"body", bodyText(r.Size, kept, "", r.PayloadHidden)},
	})
	for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
		for _, value := range r.Headers[name] {
			_ = s.print("header %s: %s", name, value)
		}
	}
	s.sayHidden(r.PayloadHidden)
	return nil
}
