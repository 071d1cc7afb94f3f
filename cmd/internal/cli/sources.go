package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/internal/control"
)

func (s *shell) sourcesCommand() *cobra.Command {
	return group("sources", "List, show or test the sources", s.sourcesListCommand(), s.sourcesShowCommand(), s.sourcesTestCommand())
}

func (s *shell) sourcesListCommand() *cobra.Command {
	var r control.ListSourcesRequest
	cmd := &cobra.Command{
		Use: "list", Short: "List every source that a server was ever started with", Args: cobra.NoArgs,
		Long: "List every source that a server was ever started with, with the path at which it takes deliveries. One\n" +
			"that is not configured any more takes nothing, and keeps its events.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.configuredControl(cmd.Context(), func(caller control.Caller) error {
				page, err := control.Call(cmd.Context(), caller, &control.ListSources, r)
				if err != nil {
					return err
				}
				return showRows(s, cmd, page.Data, s.sourceTable, nil)
			})
		},
	}
	cmd.Flags().StringVar(&r.Tenant, "tenant", "", "only this tenant")
	return cmd
}

func (s *shell) sourceTable(rows []control.Source) *table {
	t := &table{
		header: []string{"NAME", "PROVIDER", "ADDRESS", "CONFIGURED", "CLASS", "TENANT", "CREATED"},
		spare:  []string{"CREATED", "CLASS", "TENANT"}, ids: []string{"NAME", "ADDRESS"}, whole: []string{"CREATED"},
	}
	for i := range rows {
		row := &rows[i]
		configured := ""
		if row.Configured {
			configured = "yes"
		}
		t.add(row.Name, row.Provider, row.Address, configured, row.Class, row.Tenant, s.tableClock(row.CreatedAt))
	}
	return t
}

func (s *shell) sourcesShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show <name>", Short: "Show the configuration of one source, without its secrets", Args: cobra.ExactArgs(1),
		Long: "Show the configuration of one source: the address that its sender posts to, the references and expiry of\n" +
			"its secrets, and its routes. The output contains no secret.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.configuredControl(cmd.Context(), func(caller control.Caller) error {
				source, err := control.Call(cmd.Context(), caller, &control.ShowSource, control.SourceReference{Name: args[0]})
				if err != nil {
					return err
				}
				if s.output == "json" {
					return s.json(source)
				}
				configured := "no: it takes nothing"
				if source.Configured {
					configured = "yes"
				}
				pairs := []pair{
					{"source", source.Name},
					{"provider", source.Provider},
					{"address", source.Address},
					{"external url", source.ExternalURL},
					{"configured", configured},
					{"class", source.Class},
					{"tenant", source.Tenant},
					{"created", clock(source.CreatedAt)},
				}
				for _, secret := range source.Secrets {
					until := ""
					if secret.Until != nil {
						until = ", until " + clock(*secret.Until)
					}
					pairs = append(pairs, pair{"secret", strings.TrimSpace(secret.Credential+" "+secret.From) + until})
				}
				for _, route := range source.Routes {
					types := "all types"
					if len(route.Types) > 0 {
						types = strings.Join(route.Types, ", ")
					}
					pairs = append(pairs, pair{"route", strings.TrimSpace(fmt.Sprintf("%s: %s -> %s (%s) %s", route.Name, types, route.Target, route.Kind, route.Address))})
				}
				page(s.out, pairs)
				return nil
			})
		},
	}
}
