package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// What ids are of.
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

// takenIDs says what the arguments of commands are, by the path of the command: the first kind that a row of the last
// list has is taken.
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

// flagKinds says which flags take ids, and of what.
var flagKinds = [...]struct{ flag, kind string }{{"event", kindEvent}, {"list", kindEffect}}

// resolveRows puts ids in the place of @1 and the like, in the arguments and flags that take ids.
func (s *shell) resolveRows(cmd *cobra.Command, args []string) error {
	path := strings.TrimPrefix(cmd.CommandPath(), "oncegate ")
	if kinds := takenIDs(path); kinds != nil {
		for i, arg := range args {
			if _, ok := rowNumber(arg); !ok {
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
