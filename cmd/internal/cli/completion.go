package cli

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/oncegate/oncegate/internal/control"
)

// completeWithin limits how long the shell waits for names after the user presses Tab.
const completeWithin = time.Second

// addCompletions adds completions for the values of flags and arguments. If names cannot be
// determined, it completes nothing and reports no error, because a message would appear in the
// middle of the user's input.
func (s *shell) addCompletions(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		s.addCompletions(sub)
	}
	for flag, values := range map[string]func() []string{
		"source": s.sourceNames, "route": s.routeNames, "target": s.targetNames, "tenant": s.tenantNames, "to": s.routeNames,
		"scope": func() []string { return texts(control.KnownScopes()) },
	} {
		if cmd.LocalNonPersistentFlags().Lookup(flag) != nil && (flag != "to" || cmd.Name() != "listen") { // listen --to is an address
			_ = cmd.RegisterFlagCompletionFunc(flag, completing(values)) // the flag exists and has no completion yet
		}
	}
	cmd.LocalNonPersistentFlags().VisitAll(func(flag *pflag.Flag) {
		if words, restricted := flag.Annotations[knownWords]; restricted {
			_ = cmd.RegisterFlagCompletionFunc(flag.Name, completing(func() []string { return words })) // as above
		}
	})
	switch strings.TrimPrefix(cmd.CommandPath(), "oncegate ") {
	case "send", "providers show", "providers verify", "providers inspect", "providers sign":
		cmd.ValidArgsFunction = firstArgument(s.providerNames)
	case "call", "sources show":
		cmd.ValidArgsFunction = firstArgument(s.sourceNames)
	case "routes discard", "routes move":
		cmd.ValidArgsFunction = firstArgument(s.routePaths)
	default:
		if !cmd.HasSubCommands() && cmd.ValidArgsFunction == nil {
			cmd.ValidArgsFunction = cobra.NoFileCompletions
		}
	}
	if name := cmd.Name(); name == "import" {
		cmd.ValidArgsFunction = nil // a file
	}
}

func completing(values func() []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return startingWith(values(), begun), cobra.ShellCompDirectiveNoFileComp
	}
}

func firstArgument(values func() []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return startingWith(values(), begun), cobra.ShellCompDirectiveNoFileComp
	}
}

func startingWith(values []string, begun string) []string {
	var out []string
	for _, value := range values {
		if value != "" && strings.HasPrefix(value, begun) {
			out = append(out, value)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (s *shell) providerNames() []string {
	all, err := s.known()
	if err != nil {
		return nil
	}
	return slices.Collect(maps.Keys(all))
}

// namesOf contains the names of sources, routes, targets and tenants. They come from the server
// that --server names, otherwise from the configuration, otherwise from the database.
type namesOf struct{ sources, routes, paths, targets, tenants []string }

func (s *shell) names() (out namesOf) {
	if cfg, err := s.load(); err == nil && len(cfg.Sources) > 0 && s.server == "" {
		out.tenants = cfg.TenantNames()
		for _, source := range cfg.Sources {
			out.sources = append(out.sources, source.Name)
			for _, route := range source.Routes {
				out.routes, out.paths = append(out.routes, route.Name), append(out.paths, source.Name+"/"+route.Name)
			}
		}
		for _, target := range cfg.Targets {
			out.targets = append(out.targets, target.Name)
		}
		return out
	}
	ctx, cancel := context.WithTimeout(context.Background(), completeWithin)
	defer cancel()
	_ = s.control(ctx, "", func(caller control.Caller) error { // on an error there is nothing to complete
		sources, err := control.Call(ctx, caller, &control.ListSources, control.ListSourcesRequest{})
		if err != nil {
			return err
		}
		for i := range sources.Data {
			out.sources, out.tenants = append(out.sources, sources.Data[i].Name), append(out.tenants, sources.Data[i].Tenant)
		}
		routes, err := control.Call(ctx, caller, &control.ListRoutes, control.ListRoutesRequest{})
		if err != nil {
			return err
		}
		for i := range routes.Data {
			r := &routes.Data[i]
			out.routes, out.paths, out.targets = append(out.routes, r.Route), append(out.paths, r.Source+"/"+r.Route), append(out.targets, r.Target)
		}
		return nil
	})
	return out
}

func (s *shell) sourceNames() []string { return s.names().sources }
func (s *shell) routeNames() []string  { return s.names().routes }
func (s *shell) routePaths() []string  { return s.names().paths }
func (s *shell) targetNames() []string { return s.names().targets }
func (s *shell) tenantNames() []string { return s.names().tenants }
