package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/control"
)

// listItems shows one page of the items of a list effect.
func (s *shell) listItems(cmd *cobra.Command, list string, f *listFlags) error {
	id, err := inbox.ParseID(list)
	if err != nil {
		return usagef("--list %q: not an id; `oncegate effects show <event>` shows the effect that became the list", list)
	}
	for name, given := range map[string]string{"--source": f.source, "--type": f.kind, "--route": f.route, "--since": f.since} {
		if given != "" {
			return usagef("%s and --list: a list has one event and one route; leave out %s", name, name)
		}
	}
	hidden := false
	r := control.ListItemsRequest{IDRequest: control.IDRequest{ID: id}, State: f.state}
	err = listPages(s, cmd, &f.pageFlags, func(ctx context.Context, caller control.Caller, p control.PageRequest) (read.Page[control.Item], error) {
		r.PageRequest = p
		page, err := control.Call(ctx, caller, &control.ListItems, r)
		hidden = hidden || slices.ContainsFunc(page.Data, func(i control.Item) bool { return i.Message.Shown().PayloadHidden })
		if problemCode(err) != control.CodeNotFound {
			return page, err
		}
		if _, err := control.Call(ctx, caller, &control.ShowEffect, r.IDRequest); err != nil {
			return page, &failure{text: fmt.Sprintf("effect %s: not found; `oncegate effects list` shows what there is", id)}
		}
		return page, &failure{text: fmt.Sprintf("effect %s became no list; `oncegate effects show %s` shows it", id, id)}
	}, s.listItemTable, func(i *control.Item) listEntry { return effectEntry(&i.EffectRow) })
	if err == nil {
		s.sayHidden(hidden)
	}
	return err
}

func (s *shell) listItemTable(rows []control.Item) *table {
	t := &table{
		header: []string{"ITEM", "RECIPIENT", "STATE", "REASON", "SUBJECT", "MESSAGE-ID", "ATTEMPTS", "CODE", "NEXT", "ID"},
		spare:  []string{"MESSAGE-ID", "NEXT", "CODE", "ATTEMPTS", "SUBJECT"}, ids: []string{"ID"}, whole: []string{"STATE", "NEXT"},
	}
	for _, row := range rows {
		m := row.Message.Shown()
		if m.Problem != "" {
			m.Subject = "(" + m.Problem + ")"
		}
		t.add(fmt.Sprint(row.Item), m.Recipient, row.State, row.Reason, m.Subject, m.MessageID, fmt.Sprint(row.Attempts), row.Code, s.tableClockOf(row.NextAt), row.ID.String())
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
func listText(list *read.ListSummary) string {
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
