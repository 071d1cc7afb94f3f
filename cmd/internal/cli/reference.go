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

// takenIDs returns the kinds of objects that the arguments of a command name, by the command's
// path. For @1, the first kind for which the row has an id is used.
func takenIDs(path string) []string {
	switch path {
	case "events show", "erase":
		return []string{kindEvent}
	case "effects show", "dead show", "dead replay", "dead discard", "replay plan":
		return []string{kindEffect, kindEvent}
	case "effects resolve":
		return []string{kindEffect}
	case "streams apply", "streams skip":
		return []string{kindStream, kindEffect}
	case "conflicts show", "conflicts admit":
		return []string{kindConflict}
	case "refusals show":
		return []string{kindRefusal}
	case "streams show", "streams unblock":
		return []string{kindStream}
	case "replay run", "replay status", "replay cancel", "replay items":
		return []string{kindReplay}
	case "sessions revoke":
		return []string{kindSession}
	case "logins revoke":
		return []string{kindLogin}
	case "outbox show", "outbox discard":
		return []string{kindOutbox}
	}
	return nil
}

// flagKinds lists the flags that take ids, with the kind of object.
var flagKinds = [...]struct{ flag, kind string }{{"event", kindEvent}, {"list", kindEffect}}

// resolveRows replaces @1 and similar references by ids, in the arguments and flags that take ids.
func (s *shell) resolveRows(cmd *cobra.Command, args []string) error {
	path := strings.TrimPrefix(cmd.CommandPath(), "oncegate ")
	if kinds := takenIDs(path); kinds != nil {
		for i, arg := range args {
			if _, ok := rowNumber(arg); !ok {
				if err := s.resolveReference(cmd, path, &args[i]); err != nil {
					return err
				}
				continue
			}
			id, err := s.resolveRow(arg, kinds)
			if err != nil {
				return err
			}
			args[i] = id
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

// referredKind returns the kind of object that the arguments of a command name, for commands that
// themselves accept only ids.
func referredKind(path string) (read.Kind, bool) {
	switch path {
	case "dead show", "dead replay", "dead discard", "replay plan":
		return read.KindDeadLetter, true
	case "effects resolve":
		return read.KindEffect, true
	case "conflicts show", "conflicts admit":
		return read.KindConflict, true
	case "refusals show":
		return read.KindRefusal, true
	case "replay run", "replay status", "replay cancel", "replay items":
		return read.KindReplay, true
	case "sessions revoke":
		return read.KindAgentSession, true
	}
	return "", false
}

// resolveReference replaces source/event-id, a sender's id, or the beginning of an id by the id. It
// leaves a reference to nothing unchanged, because the command reports it in its own words.
func (s *shell) resolveReference(cmd *cobra.Command, path string, arg *string) error {
	kind, ok := referredKind(path)
	if _, err := inbox.ParseID(*arg); !ok || err == nil || *arg == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), namesBound)
	defer cancel()
	var found control.FoundReference
	err := s.control(ctx, "", func(caller control.Caller) (err error) {
		found, err = control.Call(ctx, caller, &control.FindReference, control.FindReferenceRequest{Kind: strings.ReplaceAll(string(kind), " ", "_"), Ref: *arg})
		return err
	})
	switch {
	case problemCode(err) == control.CodeAmbiguous:
		return usagef("%s", oneLine(err.Error()))
	case err != nil:
		return nil // the command reports the error
	}
	fmt.Fprintf(s.err, "oncegate: %s is %s %s\n", clean(*arg), kind, found.ID)
	*arg = found.ID.String()
	return nil
}
