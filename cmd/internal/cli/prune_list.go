package cli

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/prune"
	"github.com/oncegate/oncegate/internal/control"
)

func (s *shell) pruneListCommand() *cobra.Command {
	var f pageFlags
	list := &cobra.Command{
		Use: "list", Short: "List what passes of prune have removed, newest first", Args: cobra.NoArgs,
		Long: "List the passes of the last 30 days that removed something, were told to include something, or did not\n" +
			"come to their end, newest first.",
		Example: "  oncegate prune list\n  oncegate prune list --limit 5 --output json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			return s.control(cmd.Context(), "", func(caller control.Caller) error {
				return showList(s, cmd, &f, listing[prune.PastRun]{
					draw: s.pruneRunTable, entry: func(*prune.PastRun) listEntry { return listEntry{} },
					page: func(p control.PageRequest) (inbox.Page[prune.PastRun], error) {
						return control.Call(cmd.Context(), caller, &control.ListPruneRuns, control.ListPruneRunsRequest{PageRequest: p})
					},
				})
			})
		},
	}
	f.add(list)
	return list
}

func (s *shell) pruneRunTable(rows []prune.PastRun) *table {
	t := &table{
		header: []string{"BEGAN", "TOOK", "COMPLETE", "ROWS", "DAYS", "LEFT", "BY", "TABLES", "ID"},
		spare:  []string{"ID", "TABLES", "LEFT"}, whole: []string{"BEGAN", "ROWS"},
	}
	for i := range rows {
		r := &rows[i]
		var sum int64
		tables := make([]string, 0, len(r.Rows))
		for _, name := range slices.Sorted(maps.Keys(r.Rows)) {
			sum += r.Rows[name]
			tables = append(tables, name+" "+strconv.FormatInt(r.Rows[name], 10))
		}
		complete := "yes"
		if !r.Complete {
			complete = strings.TrimSpace("no " + strings.Join(r.Contended, ", "))
		}
		t.add(s.tableClock(r.BeganAt), r.EndedAt.Sub(r.BeganAt).Round(time.Millisecond).String(), complete, strconv.FormatInt(sum, 10), strconv.Itoa(len(r.Partitions)),
			strconv.FormatInt(r.Left, 10), r.Actor, strings.Join(tables, ", "), r.ID.String())
	}
	return t
}
