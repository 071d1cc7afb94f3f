package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/cmd/internal/errorcode"
	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/control"
)

// itemsOf returns the request for the items of a list effect. It refuses flags that do not go with --list.
func itemsOf(cmd *cobra.Command, effect, state string) (r control.ListItemsRequest, err error) {
	if r.ID, err = inbox.ParseID(effect); err != nil {
		return r, usagef("--list %q: not an id; `oncegate effects show <event>` shows the effect that became the list", effect)
	}
	for _, flag := range []string{"source", "type", "route", "target", "reason", "key", "since", "until"} {
		if cmd.Flags().Changed(flag) {
			return r, usagef("--%s and --list: a list has one event and one route; leave out --%s", flag, flag)
		}
	}
	r.State = state
	return r, nil
}

// listItems shows one page of the items of a list effect.
func (s *shell) listItems(ctx context.Context, caller control.Caller, cmd *cobra.Command, pages *pageFlags, r control.ListItemsRequest) error {
	hidden := false
	err := showList(s, cmd, pages, &itemColumns, func(p control.PageRequest) (read.Page[control.Item], error) {
		r.PageRequest = p
		page, err := control.Call(ctx, caller, &control.ListItems, r)
		hidden = hidden || slices.ContainsFunc(page.Data, func(i control.Item) bool { return i.Message.Shown().PayloadHidden })
		if problemCode(err) != control.CodeNotFound {
			return page, err
		}
		if _, err := control.Call(ctx, caller, &control.ShowEffect, r.IDRequest); err != nil {
			return page, failf(operationCode(control.CodeNotFound), "effect %s: not found; `oncegate effects list` shows what there is", r.ID)
		}
		return page, errorf(errorcode.WrongState, "effect %s became no list; `oncegate effects show %s` shows it", r.ID, r.ID)
	})
	if err == nil {
		s.sayHidden(hidden)
	}
	return err
}

var itemColumns = columns[control.Item]{
	header: []string{"ITEM", "RECIPIENT", "STATE", "REASON", "SUBJECT", "MESSAGE-ID", "ATTEMPTS", "CODE", "NEXT", "ID"},
	spare:  []string{"MESSAGE-ID", "NEXT", "CODE", "ATTEMPTS", "SUBJECT"}, ids: []string{"ID"}, whole: []string{"STATE", "NEXT"},
	cells: func(row *control.Item) []any {
		m := row.Message.Shown()
		if m.Problem != "" {
			m.Subject = "(" + m.Problem + ")"
		}
		return []any{row.Item, m.Recipient, row.State, row.Reason, m.Subject, m.MessageID, row.Attempts, row.Code, row.NextAt, row.ID}
	},
	entry: func(i *control.Item) listEntry { return effectEntry(&i.EffectRow) },
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
	if list.CancelledAt != nil {
		text += "; cancelled " + list.CancelledAt.UTC().Format(time.RFC3339)
	}
	return text
}
