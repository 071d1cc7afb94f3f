package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/control"
)

// Kinds of objects that have ids.
const (
	kindEvent    = "event"
	kindEffect   = "effect"
	kindConflict = "conflict"
	kindRefusal  = "refusal"
	kindStream   = "stream"
	kindReplay   = "replay"
	kindSession  = "session"
	kindOutbox   = "outbox"
	kindLogin    = "login"
)

// idArgument declares that the arguments of commands name objects of some kinds.
type idArgument struct {
	commands, kinds []string
	referred        read.Kind
}

// idArguments declares the commands whose arguments name objects. For @1, the first kind for which the row has an id is
// used. The commands with a referred kind themselves accept only ids, so other references are replaced by ids.
var idArguments = []idArgument{
	{[]string{"events show", "erase"}, []string{kindEvent}, ""},
	{[]string{"effects show"}, []string{kindEffect, kindEvent}, ""},
	{[]string{"dead show", "dead replay", "dead discard", "replay plan"}, []string{kindEffect, kindEvent}, read.KindDeadLetter},
	{[]string{"effects resolve"}, []string{kindEffect}, read.KindEffect},
	{[]string{"streams apply", "streams skip"}, []string{kindStream, kindEffect}, ""},
	{[]string{"streams show", "streams unblock"}, []string{kindStream}, ""},
	{[]string{"conflicts show", "conflicts admit"}, []string{kindConflict}, read.KindConflict},
	{[]string{"refusals show"}, []string{kindRefusal}, read.KindRefusal},
	{[]string{"replay run", "replay status", "replay cancel", "replay items"}, []string{kindReplay}, read.KindReplay},
	{[]string{"sessions revoke"}, []string{kindSession}, read.KindAgentSession},
	{[]string{"logins revoke"}, []string{kindLogin}, ""},
	{[]string{"outbox show", "outbox discard"}, []string{kindOutbox}, ""},
}

// flagKinds lists the flags that take ids, with the kind of object.
var flagKinds = [...]struct{ flag, kind string }{{"event", kindEvent}, {"list", kindEffect}}

// resolveRows replaces @1 and similar references by ids, in the arguments and flags that take ids.
func (s *shell) resolveRows(cmd *cobra.Command, args []string) error {
	path := strings.TrimPrefix(cmd.CommandPath(), "oncegate ")
	at := slices.IndexFunc(idArguments, func(a idArgument) bool { return slices.Contains(a.commands, path) })
	for i := 0; at >= 0 && i < len(args); i++ {
		var err error
		if _, ok := rowNumber(args[i]); ok {
			args[i], err = s.resolveRow(args[i], idArguments[at].kinds)
		} else {
			args[i], err = s.resolveReference(cmd, idArguments[at].referred, args[i])
		}
		if err != nil {
			return err
		}
	}
	for _, f := range flagKinds {
		flag := cmd.Flags().Lookup(f.flag)
		if flag == nil || !slices.Contains([]string{"conflicts list", "effects list"}, path) {
			continue
		}
		if _, ok := rowNumber(flag.Value.String()); !ok {
			continue
		}
		id, err := s.resolveRow(flag.Value.String(), []string{f.kind})
		if err != nil {
			return err
		}
		if err := flag.Value.Set(id); err != nil {
			return usagef("--%s: %v", f.flag, err)
		}
	}
	return nil
}

// resolveReference returns the id for source/event-id, a sender's id, or the beginning of an id. It
// returns a reference to nothing unchanged, because the command reports it in its own words.
func (s *shell) resolveReference(cmd *cobra.Command, kind read.Kind, arg string) (string, error) {
	if _, err := inbox.ParseID(arg); kind == "" || err == nil || arg == "" {
		return arg, nil
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), namesBound)
	defer cancel()
	var found control.FoundReference
	err := s.control(ctx, "", func(caller control.Caller) (err error) {
		found, err = control.Call(ctx, caller, &control.FindReference, control.FindReferenceRequest{Kind: strings.ReplaceAll(string(kind), " ", "_"), Ref: arg})
		return err
	})
	switch {
	case problemCode(err) == control.CodeAmbiguous:
		return "", refusef(operationCode(control.CodeAmbiguous), "%s", oneLine(err.Error()))
	case err != nil:
		return arg, nil // the command reports the error
	}
	fmt.Fprintf(s.err, "oncegate: %s is %s %s\n", clean(arg), kind, found.ID)
	return found.ID.String(), nil
}
