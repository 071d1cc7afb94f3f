package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/oncegate/oncegate/internal/control"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/inbox/registry"
)

// namesBound limits the time for finding out whether a name is a former name.
const namesBound = 3 * time.Second

// refusePreviousName returns an error that names the current name if the user gave a former name of
// a source or route, because every list filtered by a former name would be empty. If that cannot be
// determined, it returns nil and the command itself reports problems.
func (s *shell) refusePreviousName(cmd *cobra.Command, args []string) error {
	if slices.Contains([]string{"send", "verify", "inspect"}, cmd.Name()) {
		return nil // they use the configuration, not the database
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
		return nil // the command reports the error
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
	return refusef(operationCode(control.CodeUnknownName), "%s %s was renamed to %s on %s: type %s", what, clean(name), clean(now), at.UTC().Format(time.DateOnly), clean(instead))
}

func flagValue(cmd *cobra.Command, name string) string {
	if flag := cmd.Flags().Lookup(name); flag != nil && flag.Changed {
		return flag.Value.String()
	}
	return ""
}
