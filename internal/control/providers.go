package control

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/providers"
)

// ProviderRow is a provider in a list.
type ProviderRow struct {
	// Name is the word that a configuration uses. Title is the name for people.
	Name  string `json:"name"`
	Title string `json:"title"`

	// Verifies says how a request is authenticated. Proves says how much of the event the signature covers.
	Verifies string `json:"verifies"`
	Proves   string `json:"proves"`

	// ID says whether the signature covers the id of an event: signed, unsigned, or none if there is no id.
	ID string `json:"id"`

	// Order is what the events say about their order, or none if they say nothing.
	Order string `json:"order"`

	// ProvedBy says who outside Oncegate confirmed the rules by which the provider is verified:
	// vendor, library, capture, third-party, or documentation if the rules were only read.
	ProvedBy string `json:"proved_by"`

	// Retries is how long the provider retries. Docs is the address where it says so.
	Retries string `json:"retries"`
	Docs    string `json:"docs"`
}

// NewProviderRow makes the row of a provider.
func NewProviderRow(p *providers.Provider) ProviderRow {
	spec := p.Spec()
	row := ProviderRow{
		Name: p.Name(), Title: spec.Title, Verifies: verifies(spec), Proves: spec.Verify.Authenticates,
		ID: "signed", ProvedBy: p.ProofOf()[0].By, Order: or(spec.Sequence.Kind, "none"), Retries: spec.Windows.Retry.For.Text(), Docs: spec.Docs,
	}
	switch {
	case spec.Identity.Mode == "level":
		row.ID = "none"
	case p.IDUnsigned():
		row.ID = "unsigned"
	}
	return row
}

// verifies describes in a few words how a request is authenticated.
func verifies(spec *providers.Spec) string {
	var words []string
	for _, scheme := range spec.Verify.Signature.Schemes {
		if !slices.Contains(words, scheme.Algorithm) {
			words = append(words, scheme.Algorithm)
		}
	}
	for _, credential := range spec.Verify.Credential {
		if !slices.Contains(words, credential.Scheme) {
			words = append(words, credential.Scheme)
		}
	}
	if len(words) == 0 || spec.Verify.Family == "operation" {
		return spec.Verify.Family
	}
	return strings.Join(words, ", ")
}

// ProviderRows returns the rows of the providers whose name, title or scheme contains the text, by
// name. If unproved is true, it returns only those with a way of signing that is proved by
// documentation alone.
func ProviderRows(all map[string]*providers.Provider, text string, unproved bool) []ProviderRow {
	rows := []ProviderRow{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if unproved && len(all[name].UnconfirmedModes()) == 0 {
			continue
		}
		row := NewProviderRow(all[name])
		about := strings.ToLower(row.Name + " " + row.Title + " " + row.Verifies)
		if strings.Contains(about, strings.ToLower(text)) {
			rows = append(rows, row)
		}
	}
	return rows
}

// ListProvidersRequest narrows a list of providers. A zero field does not narrow it.
type ListProvidersRequest struct {
	// Text is searched for in the names, titles and schemes, ignoring case.
	Text string `json:"text,omitempty"`

	// Unproved keeps only providers whose rules, or the rules of one of their modes, no source outside Oncegate confirmed.
	Unproved bool `json:"unproved,omitempty"`
}

// ListProviders lists the providers.
var ListProviders = Operation[ListProvidersRequest, read.Page[ProviderRow]]{
	ID: "list_providers", Method: "GET", Path: "/providers", Scope: ReadMetadata,
	Summary: "List the providers of the catalogue and of the configuration, by name.",
	Do: func(_ context.Context, s *Service, _ Access, r ListProvidersRequest) (read.Page[ProviderRow], error) {
		return whole(ProviderRows(s.providers(), r.Text, r.Unproved)), nil
	},
}

// providers returns the providers of the catalogue and of the configuration.
func (s *Service) providers() providers.Map {
	all := providers.Map{}
	if s.cfg.Catalog != nil {
		for _, name := range s.cfg.Catalog.Names() {
			all[name] = s.cfg.Catalog.Provider(name)
		}
	}
	if s.cfg.Settings != nil {
		maps.Copy(all, s.cfg.Settings.Providers)
	}
	return all
}

// ProviderReference identifies a provider.
type ProviderReference struct {
	// Name is the word that a configuration uses.
	Name string `json:"name"`
}

// Provider is a provider with everything that is known about it.
type Provider struct {
	ProviderRow

	// IDUnsigned says that the signature does not cover the id of an event.
	IDUnsigned bool `json:"id_unsigned"`

	// Entry is the complete entry, as a custom provider would write it.
	Entry json.RawMessage `json:"entry"`
}

// ShowProvider shows one provider.
var ShowProvider = Operation[ProviderReference, *Provider]{
	ID: "show_provider", Method: "GET", Path: "/providers/{name}", Scope: ReadMetadata,
	Summary: "Show everything that the catalogue, or the configuration, says about a provider.",
	Do: func(_ context.Context, s *Service, _ Access, r ProviderReference) (*Provider, error) {
		p := s.providers()[r.Name]
		if p == nil {
			return nil, &Problem{Code: CodeNotFound, Detail: fmt.Sprintf("unknown provider %q; %sthe list of providers has all", r.Name, providers.DidYouMean(s.providers(), r.Name))}
		}
		text, err := yaml.Marshal(p.Spec().Tree())
		if err != nil {
			return nil, fmt.Errorf("writing provider %s: %w", r.Name, err)
		}
		entry, err := yaml.YAMLToJSON(text)
		if err != nil {
			return nil, fmt.Errorf("writing provider %s: %w", r.Name, err)
		}
		return &Provider{ProviderRow: NewProviderRow(p), IDUnsigned: p.IDUnsigned(), Entry: entry}, nil
	},
}
