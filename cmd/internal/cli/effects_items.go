package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/internal/control"
)

// listItems shows one page of the items of a list effect.
func (s *shell) listItems(cmd *cobra.Command, list string, f *listFlags, behind string) error {
	id, err := inbox.ParseID(list)
	if err != nil {
		return usagef("--list %q: not an id; `oncegate effects show <event>` shows the effect that became the list", list)
	}
	for name, given := range map[string]string{"--source": f.source, "--type": f.kind, "--route": f.route, "--since": f.since} {
		if given != "" {
			return usagef("%s and --list: a list has one event and one route; leave out %s", name, name)
		}
	}
	r := control.ListItemsRequest{IDRequest: control.IDRequest{ID: id}, State: f.state}
	return listPages(s, cmd, &f.pageFlags, behind, func(ctx context.Context, caller control.Caller, p control.PageRequest) (inbox.Page[inbox.EffectRow], error) {
		r.PageRequest = p
		page, err := control.Call(ctx, caller, &control.ListItems, r)
		if problemCode(err) != control.CodeNotFound {
			return page, err
		}
		if _, err := control.Call(ctx, caller, &control.ShowEffect, r.IDRequest); err != nil {
			return page, &failure{text: fmt.Sprintf("effect %s: not found; `oncegate effects list` shows what there is", id)}
		}
		return page, &failure{text: fmt.Sprintf("effect %s became no list; `oncegate effects show %s` shows it", id, id)}
	}, s.listItemTable, effectEntry)
}

func (s *shell) listItemTable(rows []inbox.EffectRow) *table {
	t := &table{header: []string{"ITEM", "STATE", "REASON", "ATTEMPTS", "CODE", "NEXT", "ID"}, spare: []string{"NEXT", "CODE", "ATTEMPTS"}, ids: []string{"ID"}, whole: []string{"STATE", "NEXT"}}
	for _, row := range rows {
		t.add(fmt.Sprint(row.Item), row.State, row.Reason, fmt.Sprint(row.Attempts), row.Code, s.tableClockOf(row.NextAt), row.ID.String())
	}
	return t
}

func itemOrEmpty(item int) string {
	if item == 0 {
		return ""
	}
	return strconv.Itoa(item)
}

// listText summarizes a list effect, as in "written 500 of 10000: done 480, pending 20".
func listText(list *inbox.ListSummary) string {
	if list == nil {
		return ""
	}
	text := fmt.Sprintf("written %d", list.Written)
	if list.Total > 0 {
		text += fmt.Sprintf(" of %d", list.Total)
	}
	var states []string
	for _, state := range control.EffectStates() {
		if n := list.States[inbox.EffectState(state)]; n > 0 {
			states = append(states, fmt.Sprintf("%s %d", state, n))
		}
	}
	if len(states) > 0 {
		text += ": " + strings.Join(states, ", ")
	}
	return text
}
