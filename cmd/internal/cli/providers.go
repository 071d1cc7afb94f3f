package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/cmd/internal/errorcode"
	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/control"
	"github.com/oncegate/oncegate/providers"
	"github.com/oncegate/oncegate/providers/catalog"
)

func (s *shell) providersCommand() *cobra.Command {
	return group("providers", "The catalogue of senders: list, show, verify, inspect, sign, draft",
		s.providersListCommand(), s.providersShowCommand(), s.providersVerifyCommand(),
		s.providersInspectCommand(), s.providersSignCommand(), s.providersDraftCommand())
}

// known returns the providers of the catalog by name, including the providers of the configuration
// if --config names one.
func (s *shell) known() (providers.Map, error) {
	if s.configFile == "" {
		return s.catalog()
	}
	cfg, err := s.loadOffline()
	if err != nil {
		return nil, err
	}
	return s.knownWith(cfg)
}

// knownWith returns the providers of the catalog and of a configuration.
func (s *shell) knownWith(cfg *config.Config) (providers.Map, error) {
	all, err := s.catalog()
	if err == nil {
		maps.Copy(all, cfg.Providers)
	}
	return all, err
}

func (s *shell) provider(name string) (*providers.Provider, providers.Map, error) {
	all, err := s.known()
	if err != nil {
		return nil, nil, err
	}
	if p := all[name]; p != nil {
		return p, all, nil
	}
	return nil, nil, unknownProvider(name, all)
}

// unknownProvider returns an error that suggests a provider with a similar name. There are too many
// providers to list them all.
func unknownProvider(name string, all providers.Catalog) error {
	if alias, ok := catalog.FindAlias(name); ok {
		if alias.Why == "" {
			return errorf(errorcode.UnknownProvider, "%s is `%s` in the catalogue: use provider: %s", clean(name), alias.Use, alias.Use)
		}
		return errorf(errorcode.UnknownProvider, "%s is not in the catalogue: %s: use provider: %s, which `oncegate providers show %s` explains", clean(name), alias.Why, alias.Use, alias.Use)
	}
	if question := providers.DidYouMean(all, name); question != "" {
		return errorf(errorcode.UnknownProvider, "unknown provider %q; %s`oncegate providers list` shows all", clean(name), question)
	}
	return errorf(errorcode.UnknownProvider, "unknown provider %q; `oncegate providers list` shows all, and --config adds the providers of a configuration", clean(name))
}

func (s *shell) providersListCommand() *cobra.Command {
	unproved := false
	cmd := &cobra.Command{
		Use: "list [filter]", Short: "List the providers, or those whose name, title or scheme matches",
		Args: cobra.MaximumNArgs(1),
		Long: "List the providers, or those whose name, title or scheme matches.\n\n" +
			"PROVED BY says who outside Oncegate confirmed the rules of an entry: the vendor itself, its library, a\n" +
			"captured request, or a third party. Entries with documentation alone are unproved.",
		RunE: func(cmd *cobra.Command, args []string) error {
			rows, of, err := s.listProviders(cmd.Context(), strings.Join(args, ""), unproved)
			if err != nil {
				return err
			}
			if err := showRows(s, cmd, &providerColumns, rows); err != nil {
				return err
			}
			if len(rows) == 0 {
				return failf(operationCode(control.CodeNotFound), "no provider%s has %q in its name, title or scheme", of, clean(strings.Join(args, "")))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&unproved, "unproved", false, "list only providers whose rules are confirmed by no source outside Oncegate")
	return cmd
}

// listProviders returns the providers of a server, or the local ones, which require no database. of
// is the text that says how many providers there are in all.
func (s *shell) listProviders(ctx context.Context, text string, unproved bool) (rows []control.ProviderRow, of string, err error) {
	if s.server == "" {
		all, err := s.known()
		rows = control.ProviderRows(all, text, unproved)
		for _, name := range catalog.AliasesMatching(text) {
			known := slices.ContainsFunc(rows, func(row control.ProviderRow) bool { return row.Name == name })
			if p := all[name]; p != nil && !known && (!unproved || len(p.UnconfirmedModes()) > 0) {
				rows = append(rows, control.NewProviderRow(p))
			}
		}
		return rows, fmt.Sprintf(" of %d", len(all)), err
	}
	err = s.control(ctx, "", func(caller control.Caller) error {
		page, err := control.Call(ctx, caller, &control.ListProviders, control.ListProvidersRequest{Text: text, Unproved: unproved})
		rows = page.Data
		return err
	})
	return rows, " of the server", err
}

var providerColumns = columns[control.ProviderRow]{
	header: []string{"NAME", "TITLE", "VERIFIES", "PROVES", "ID", "PROVED BY", "ORDER", "RETRIES"},
	spare:  []string{"RETRIES", "ORDER", "PROVES", "PROVED BY", "ID"}, ids: []string{"NAME"},
	cells: func(row *control.ProviderRow) []any {
		return []any{row.Name, row.Title, row.Verifies, row.Proves, row.ID, row.ProvedBy, row.Order, row.Retries}
	},
}

func (s *shell) providersShowCommand() *cobra.Command {
	resolved := false
	cmd := &cobra.Command{
		Use: "show <name>", Short: "Show everything the catalogue says about a provider", Args: cobra.ExactArgs(1),
		Long: "Show everything that the catalogue, or the configuration, says about a provider.\n\n" +
			"With --resolved it prints the complete definition in force, and the origin of each part: the provider\n" +
			"itself, a provider that it extends, or a default.",
		Example: "  oncegate providers show stripe\n" +
			"  oncegate providers show acme --resolved --config oncegate.yml",
		RunE: func(cmd *cobra.Command, args []string) error {
			if s.server != "" {
				if resolved {
					return usagef("--resolved reads the configuration here: leave --server out")
				}
				return s.showServersProvider(cmd.Context(), args[0])
			}
			p, _, err := s.provider(args[0])
			if err != nil {
				return err
			}
			if resolved {
				return s.showResolved(p)
			}
			text, err := yaml.MarshalWithOptions(p.Spec().Tree(), yaml.IndentSequence(true), yaml.UseLiteralStyleIfMultiline(true))
			if err != nil {
				return fmt.Errorf("writing yaml: %w", err)
			}
			if s.output == "json" {
				object, err := yaml.YAMLToJSON(text)
				if err != nil {
					return fmt.Errorf("writing json: %w", err)
				}
				return s.json(struct {
					control.ProviderRow
					IDUnsigned bool            `json:"id_unsigned"`
					Entry      json.RawMessage `json:"entry"`
				}{control.NewProviderRow(p), p.IDUnsigned(), object})
			}
			row, spec := control.NewProviderRow(p), p.Spec()
			limits := p.Limits()
			page(s.out, []pair{
				{"provider", row.Name},
				{"title", row.Title},
				{"documentation", row.Docs},
				{"compared with it", spec.Checked},
				{"verified by", row.Verifies},
				{"proved by", provedBy(p)},
				{"a signature proves", proves(row.Proves)},
				{"event id", map[string]string{
					"signed": "covered by the signature", "unsigned": "not covered by the signature: the same body under a new id is reported as a suspected replay",
					"none": "none that identifies: every verified delivery is a new event",
				}[row.ID]},
				{"event type", typeCover(p)},
				{"order", row.Order},
				{"signs as", strings.Join(p.Modes(), ", ")},
				{"tolerance", tolerance(spec)},
				{"methods", strings.Join(limits.Methods, ", ")},
				{"largest body", fmt.Sprintf("%d bytes", limits.MaxBody)},
				{"retries for", window(spec.Windows.Retry)},
				{"resends for", window(spec.Windows.Resend)},
				{"lists for", window(spec.Windows.List)},
				{"waits for the answer", spec.Windows.AckWithin.Text()},
				{"stops after", failures(spec)},
				{"handshakes", handshakeNames(spec)},
			})
			for _, note := range spec.Notes {
				fmt.Fprintln(s.out, "note: "+clean(note))
			}
			fmt.Fprintf(s.out, "\nThe entry in full, as a custom provider would write it:\n\n")
			for line := range strings.Lines(string(text)) {
				fmt.Fprintln(s.out, clean(strings.TrimSuffix(line, "\n")))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&resolved, "resolved", false, "print the definition in force, with the origin of each part")
	return cmd
}

// showServersProvider shows a server's definition of a provider.
func (s *shell) showServersProvider(ctx context.Context, name string) error {
	return s.control(ctx, "", func(caller control.Caller) error {
		p, err := control.Call(ctx, caller, &control.ShowProvider, control.ProviderReference{Name: name})
		if err != nil {
			return err
		}
		if s.output == "json" {
			return s.json(p)
		}
		entry, err := yaml.JSONToYAML(p.Entry)
		if err != nil {
			return fmt.Errorf("writing yaml: %w", err)
		}
		page(s.out, []pair{
			{"provider", p.Name}, {"title", p.Title}, {"documentation", p.Docs}, {"verified by", p.Verifies}, {"proved by", p.ProvedBy}, {"a signature proves", proves(p.Proves)},
			{"event id", p.ID}, {"order", p.Order}, {"retries for", p.Retries},
		})
		fmt.Fprintf(s.out, "\nThe entry in full, as a custom provider would write it:\n\n")
		for line := range strings.Lines(string(entry)) {
			fmt.Fprintln(s.out, clean(strings.TrimSuffix(line, "\n")))
		}
		return nil
	})
}

// showResolved prints the effective definition, with the origin of each part.
func (s *shell) showResolved(p *providers.Provider) error {
	text, parts, err := p.Resolved()
	if err != nil {
		return fmt.Errorf("resolving %s: %w", p.Name(), err)
	}
	if s.output == "json" {
		return s.json(map[string]any{"name": p.Name(), "resolved": text, "parts": parts})
	}
	for line := range strings.Lines(text) {
		fmt.Fprintln(s.out, clean(strings.TrimSuffix(line, "\n")))
	}
	return nil
}

// typeCover says which unsigned parts of the request the type of an event may come from.
func typeCover(p *providers.Provider) string {
	if unsigned := p.TypeUnsigned(); len(unsigned) > 0 {
		return "not covered by the signature where it is read from " + strings.Join(unsigned, " or ")
	}
	return ""
}

// provedBy describes who confirmed the rules of the provider and of each of its modes.
func provedBy(p *providers.Provider) string {
	var out []string
	for _, way := range p.ProofOf() {
		text := providers.ProofText(way.By)
		if way.Mode != providers.DefaultMode {
			text = "mode " + way.Mode + ": " + text
		}
		out = append(out, text)
	}
	return strings.Join(out, "; ")
}

func proves(what string) string {
	switch what {
	case "body":
		return "the whole body"
	case "part":
		return "a part of the event only"
	case "origin":
		return "the sender, not the content"
	}
	return what
}

func tolerance(spec *providers.Spec) string {
	t := &spec.Verify.Timestamp
	if t.From == "" || t.From == "none" {
		return "no time is signed"
	}
	if t.Unsigned {
		return "the time is not signed"
	}
	return t.Past.Text() + " in the past, " + t.Future.Text() + " in the future"
}

func window(w providers.WindowSpec) string {
	if w.For == 0 {
		return ""
	}
	parts := []string{w.For.Text(), w.Note, w.Source}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), "; ")
}

func handshakeNames(spec *providers.Spec) string {
	var out []string
	for i := range spec.Handshakes {
		out = append(out, spec.Handshakes[i].Method+" "+spec.Handshakes[i].Name)
	}
	return strings.Join(out, ", ")
}

// failures says after how many failures in a row the provider stops delivering.
func failures(s *providers.Spec) string {
	if s.Windows.Failures == 0 {
		return ""
	}
	return fmt.Sprintf("%d failures in a row", s.Windows.Failures)
}
