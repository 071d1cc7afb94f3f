package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox/registry"
)

// namesBound is how long it may take to find out whether a name is one of the past.
const namesBound = 3 * time.Second

// refusePreviousName says what to type instead of a name that a source or route had before:
// narrowed by it, every list would be empty. What cannot be found out is left to the
// command itself.
func (s *shell) refusePreviousName(cmd *cobra.Command, args []string) error {
	if slices.Contains([]string{"send", "verify", "inspect"}, cmd.Name()) {
		return nil // they ask the configuration
	}
	source, route := flagValue(cmd, "source"), flagValue(cmd, "route")
	flagged := source != "" || route != ""
	if !flagged && len(args) > 0 {
		if parts := strings.SplitN(args[0], "/", 3); len(parts) > 1 {
			if source = parts[0]; cmd.HasParent() && slices.Contains([]string{"routes", "streams"}, cmd.Parent().Name()) {
				route = parts[1]
			}
		}
	}
	if source == "" && route == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), namesBound)
	defer cancel()
	pool, err := s.openPoolOf(ctx, fewConnections)
	if err != nil {
		return nil // the command says it
	}
	defer pool.Close()
	if now, at, err := registry.PresentSource(ctx, pool, source); err == nil && now != "" {
		return renamedTo("source", source, now, at, flagged)
	}
	if now, at, err := registry.PresentRoute(ctx, pool, source, route); err == nil && now != "" && route != "" {
		return renamedTo("route", route, now, at, flagged)
	}
	return nil
}

func renamedTo(what, name, now string, at time.Time, flag bool) error {
	instead := now
	if flag {
		instead = "--" + what + " " + now
	}
	return usagef("%s %s was renamed to %s on %s: type %s", what, clean(name), clean(now), at.UTC().Format(time.DateOnly), clean(instead))
}

func flagValue(cmd *cobra.Command, name string) string {
	if flag := cmd.Flags().Lookup(name); flag != nil && flag.Changed {
		return flag.Value.String()
	}
	return ""
}
