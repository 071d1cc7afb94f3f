package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/control"
)

var effectColumns = columns[read.EffectRow]{
	header: []string{"RECORDED", "SOURCE", "TYPE", "EVENT ID", "ROUTE", "TARGET", "STATE", "REASON", "ATTEMPTS", "CODE", "NEXT", "SENT", "KEY", "MESSAGE-ID", "ID"},
	extra:  []string{"SENT", "KEY", "MESSAGE-ID"}, spare: []string{"TARGET", "NEXT", "ATTEMPTS", "TYPE", "CODE"}, ids: []string{"EVENT ID", "ID"}, whole: []string{"RECORDED", "STATE", "NEXT"},
	cells: func(row *read.EffectRow) []any {
		return []any{row.ID.Time(), row.Source, row.Type, row.EventID, row.Route, row.Target, row.State, row.Reason, row.Attempts, row.Code, row.NextAt, row.SendStartedAt, row.Key, row.MessageID, row.ID}
	},
	entry: effectEntry,
}

// effectsOfEvent are the columns for the effects of one event.
var effectsOfEvent = columns[read.EffectRow]{
	header: []string{"ROUTE", "TARGET", "STATE", "REASON", "ATTEMPTS", "CODE", "NEXT", "ID"}, spare: effectColumns.spare, ids: effectColumns.ids, whole: effectColumns.whole,
	cells: func(row *read.EffectRow) []any {
		return []any{row.Route, row.Target, row.State, row.Reason, row.Attempts, row.Code, row.NextAt, row.ID}
	},
}

func effectEntry(row *read.EffectRow) listEntry {
	return listEntry{
		IDs:  map[string]string{kindEffect: row.ID.String(), kindEvent: row.Event.String()},
		Name: row.Source + "/" + row.EventID + " " + row.Route,
	}
}

var effectGroupColumns = columns[read.EffectGroup]{
	header: []string{"COUNT", "SOURCE", "ROUTE", "TARGET", "STATE", "REASON", "FIRST", "LAST", "EXAMPLE"},
	spare:  []string{"TARGET", "FIRST"}, ids: []string{"EXAMPLE"}, whole: []string{"COUNT", "STATE", "FIRST", "LAST"},
	cells: func(g *read.EffectGroup) []any {
		return []any{read.CountOf(g.Count, g.More), g.Source, g.Route, g.Target, g.State, g.Reason, g.First, g.Last, g.Example}
	},
	entry: func(g *read.EffectGroup) listEntry {
		return listEntry{IDs: map[string]string{kindEffect: g.Example.String()}, Name: g.Source + "/" + g.Route}
	},
}

func (s *shell) effectsCommand() *cobra.Command {
	var of string
	var grouped bool
	list := newList(s, &control.ListEffects, &effectColumns, &cobra.Command{
		Short: "List effects, newest first",
		Long: "List effects, newest first, or with --list the items of the list that an effect became, in their order.\n" +
			"--group counts them by source, route, target, state and reason: of a source in shadow mode, that is what\n" +
			"it would have done.",
		Example: "  oncegate effects list --state dead\n  oncegate effects list --target billing --since 2h --reason attempts_exhausted",
	})
	restrict(list.Command, "state", control.EffectStates())
	list.Command.Flags().StringVar(&of, "list", "", "only the items of the list that this effect became, by its id")
	list.Command.Flags().BoolVar(&grouped, "group", false, "count them by source, route, target, state and reason")
	var items control.ListItemsRequest
	list.check = func([]string) (err error) {
		if grouped && (list.Command.Flags().Changed("key") || list.Command.Flags().Changed("list")) {
			return usagef("--group excludes --key and --list")
		}
		if key := list.request.Key; list.Command.Flags().Changed("key") && !read.IsKeyReference(key) {
			return usagef("--key %q is %s", clean(key), read.ErrKeyReference)
		}
		if list.Command.Flags().Changed("list") {
			items, err = itemsOf(list.Command, of, list.request.State)
		}
		return err
	}
	list.instead = func(ctx context.Context, caller control.Caller) (done bool, err error) {
		if grouped {
			groups, err := control.Call(ctx, caller, &control.GroupEffects, list.request.EffectFilter)
			return true, showGroups(s, list.Command, "effects", &effectGroupColumns, groups, err)
		}
		if items.ID.IsZero() {
			return false, nil
		}
		return true, s.listItems(ctx, caller, list.Command, &list.pages, items)
	}
	show := &cobra.Command{
		Use: "show <id | source/event-id | key | Message-ID>", Short: "Show the effect of an id, event or key, with its attempts", Args: cobra.ExactArgs(1),
		Long: "Show one effect with its attempts, by its id, or every effect of an event, by the event's id or\n" +
			"key. An idempotency key that a target got, or the Message-ID of a mail, shows the effects that were\n" +
			"attempted under it, newest first. In JSON, an id prints one object and every other argument a list.",
		Example: "  oncegate effects show stripe/evt_demo\n  oncegate effects show '<0b5fa3c2e1d4479886a7c0d19e2f3a4b@shop.example>'",
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.control(cmd.Context(), "", func(caller control.Caller) error { return s.showEffects(cmd.Context(), caller, args[0]) })
		},
	}
	return group("effects", "List, show, resolve or cancel effects", list.Command, show, s.resolveCommand(), s.cancelListCommand())
}

// showEffects shows the effect with the id. If there is none, it shows the effects of the event
// that ref names.
func (s *shell) showEffects(ctx context.Context, caller control.Caller, ref string) error {
	if id, err := inbox.ParseID(ref); err == nil {
		effect, err := control.Call(ctx, caller, &control.ShowEffect, control.IDRequest{ID: id})
		if err == nil {
			return shown(s, effect, s.showEffect)
		}
		if problemCode(err) != control.CodeNotFound {
			return err
		}
	}
	if read.IsKeyReference(ref) {
		page, err := control.Call(ctx, caller, &control.ListEffects, control.ListEffectsRequest{Key: ref, PageRequest: control.PageRequest{Limit: shownOfKey}})
		if err != nil || len(page.Data) > 0 {
			if err == nil && page.HasMore {
				fmt.Fprintf(s.err, "oncegate: these are the newest %d: `oncegate effects list --key '%s'` lists all\n", shownOfKey, clean(ref))
			}
			return s.showAll(ctx, caller, page.Data, err)
		}
	}
	event, err := control.Call(ctx, caller, &control.ShowEvent, control.EventReference{Ref: ref})
	switch code := problemCode(err); {
	case code == control.CodeNotFound && read.WhyNoKey(ref) != "":
		return failf(operationCode(control.CodeNotFound), "%s: not found: %s", clean(ref), read.WhyNoKey(ref))
	case code == control.CodeInvalid:
		return usagef("%q is neither an effect's id nor an event's key such as stripe/evt_1; `oncegate effects list` shows them", clean(ref))
	case code == control.CodeNotFound:
		return failf(operationCode(control.CodeNotFound), "%s: not found, neither as an effect nor as an event; `oncegate effects list` shows what there is", clean(ref))
	case err != nil:
		return err
	case len(event.Effects) == 0 && s.output != "json":
		return failf(operationCode(control.CodeNotFound), "event %s/%s has no effects; `oncegate events show` shows why", clean(event.Source), clean(event.EventID))
	}
	return s.showAll(ctx, caller, event.Effects, nil)
}

// shownOfKey is how many effects of one key are shown at once.
const shownOfKey = 20

// showAll shows effects one below the other, unless they could not be listed.
func (s *shell) showAll(ctx context.Context, caller control.Caller, rows []read.EffectRow, err error) error {
	if err != nil {
		return err
	}
	effects := []*control.Effect{}
	for i := range rows {
		effect, err := control.Call(ctx, caller, &control.ShowEffect, control.IDRequest{ID: rows[i].ID})
		if err != nil {
			return err
		}
		effects = append(effects, effect)
	}
	if s.output == "json" {
		return s.json(effects)
	}
	for i, effect := range effects {
		if i > 0 {
			fmt.Fprintln(s.out)
		}
		if err := s.showEffect(effect); err != nil {
			return err
		}
	}
	return nil
}

func (s *shell) showEffect(e *control.Effect) error {
	message := e.Message.Shown()
	page(s.out, []pair{
		{"effect", e.ID.String()},
		{"event", e.Event.String()},
		{"key", e.Source + "/" + e.EventID},
		{"type", e.Type},
		{"tenant", e.Tenant},
		{"route", fmt.Sprintf("%s, version %d", e.Route, e.RouteVersion)},
		{"target", e.Target},
		{"state", e.State},
		{"reason", e.Reason},
		{"waits", e.Waits},
		{"last attempt", lastFailure(e)},
		{"attempts", fmt.Sprint(e.Attempts)},
		{"code", e.Code},
		{"idempotency key", e.Key},
		{"trace", e.TraceID},
		{"fetched", cut(oneLine(e.Fetched), 200)},
		{"recipient", message.Recipient},
		{"subject", message.Subject},
		{"message id", message.MessageID},
		{"message", message.Problem},
		{"send started", timeOrEmpty(e.SendStartedAt)},
		{"lease until", timeOrEmpty(e.LeaseUntil)},
		{"next", timeOrEmpty(e.NextAt)},
		{"finished", timeOrEmpty(e.FinishedAt)},
		{"rearmed", nonzero(e.Rearms)},
		{"duplicate of", optionalID(e.DuplicateOf)},
		{"item", nonzero(e.Item)},
		{"list", listText(e.List)},
	})
	if e.List != nil && e.List.States[inbox.EffectDead]+e.List.States[inbox.EffectIndeterminate] > 0 {
		fmt.Fprintf(s.out, "\n`oncegate effects list --list %s --state dead` shows the dead ones, a page at a time.\n", e.ID)
	}
	s.sayHidden(e.PayloadHidden || message.PayloadHidden)
	if len(e.AttemptRows) == 0 {
		return nil
	}
	t := &table{header: []string{"ATTEMPT", "TRIGGER", "STARTED", "TOOK", "OUTCOME", "REASON", "CODE", "KEY", "SAID"}, spare: []string{"KEY", "TRIGGER", "TOOK"}}
	for _, a := range e.AttemptRows {
		t.add(fmt.Sprint(a.Attempt), a.Trigger, clock(a.StartedAt), a.FinishedAt.Sub(a.StartedAt).Round(time.Millisecond).String(), a.Outcome, a.Reason, a.Code, onlyIf(a.Recognised, "recognised"), a.Excerpt)
	}
	fmt.Fprintln(s.out)
	t.write(s.out, s.width())
	return nil
}

// sayHidden explains that content is missing because the token may not see it.
func (s *shell) sayHidden(hidden bool) {
	if hidden {
		fmt.Fprintln(s.err, "oncegate: content is left out: the token lacks the scope read-payload")
	}
}

// lastFailure returns why the last attempt of an unfinished effect failed, or "".
func lastFailure(e *control.Effect) string {
	if len(e.AttemptRows) == 0 || e.State == string(inbox.EffectDone) {
		return ""
	}
	last := e.AttemptRows[len(e.AttemptRows)-1]
	if last.Reason == "" {
		return ""
	}
	return strings.TrimSuffix(last.Reason+": "+cut(oneLine(last.Excerpt), 120), ": ")
}
