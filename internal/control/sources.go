package control

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/oncegate/oncegate/inbox/pause"
	"github.com/oncegate/oncegate/inbox/read"
	"github.com/oncegate/oncegate/internal/config"
)

// ListSourcesRequest asks for the sources.
type ListSourcesRequest struct {
	TenantFilter `flag:"--tenant only this tenant"`
}

// Source is a source in a list.
type Source struct {
	// Name is the name of the source. Address is the path to which its sender posts, below the address of the public
	// listener. It is empty if the source only consumes from a broker.
	Name    string `json:"name"`
	Address string `json:"address"`

	// From is the broker from which the source consumes, and the stream, topic or queue there. It contains no account.
	From string `json:"from,omitempty"`

	// Provider, Class and Tenant are as registered.
	Provider string `json:"provider"`
	Class    string `json:"class"`
	Tenant   string `json:"tenant,omitempty"`

	// Configured says that the configuration of the server that answers has the source. Other sources have rows and
	// accept nothing.
	Configured bool `json:"configured"`

	// Stored says that the source is defined in the database and not in the file. Disabled says that it answers as if there were
	// none. Both are as the server that answers has them.
	Stored   bool `json:"stored,omitempty"`
	Disabled bool `json:"disabled,omitempty"`

	// Shadow says that the source is in shadow mode, as the server that started last has it: its events are recorded, and none
	// of their effects is carried out.
	Shadow bool `json:"shadow,omitempty"`

	// CreatedAt is when a server was first started with the source.
	CreatedAt time.Time `json:"created_at"`

	// Move says to or from which database the source moves, or has moved. It is absent if it never did.
	Move *read.SourceMove `json:"move,omitempty"`

	// Paused says since when the source takes no deliveries, by whom and why. It is absent if the source is not paused.
	Paused *pause.Pause `json:"paused,omitempty"`
}

// ListSources lists the sources.
var ListSources = Operation[ListSourcesRequest, read.Page[Source]]{
	ID: "list_sources", Method: "GET", Path: "/sources", Scope: ReadMetadata,
	Summary: "List every source that a server was ever started with, by name.",
	Do: func(ctx context.Context, s *Service, access Access, r ListSourcesRequest) (page read.Page[Source], err error) {
		tenant, err := r.narrow(access)
		if err != nil {
			return page, err
		}
		rows, err := s.lister.Sources(ctx, tenant)
		if err != nil {
			return page, err
		}
		paused, err := s.pauses(ctx, access)
		out := make([]Source, len(rows))
		for i := range rows {
			out[i] = s.source(&rows[i], paused)
		}
		return whole(out), err
	},
}

func (s *Service) source(row *read.SourceRow, paused pause.Pauses) Source {
	out := Source{
		Name: row.Name, Address: "/in/" + row.Name, Provider: row.Provider, Class: row.Class, Tenant: row.Tenant,
		Shadow: row.Shadow, CreatedAt: row.CreatedAt, Move: row.Move, Paused: paused.Of(pause.Source, row.Name),
	}
	if configured := s.configured(row.Name); configured != nil {
		out.Configured, out.Stored, out.Disabled = true, configured.Stored, configured.Disabled
		if configured.From != nil {
			out.From = configured.From.String()
		}
		if !configured.OverHTTP() {
			out.Address = ""
		}
	}
	return out
}

// configured returns a source of the configuration. It returns nil if there is no source of that name or no
// configuration.
func (s *Service) configured(name string) *config.Source {
	if s.cfg.Settings == nil {
		return nil
	}
	for _, source := range s.cfg.Settings.Sources {
		if source.Name == name {
			return source
		}
	}
	return nil
}

// sourcesOf returns the names of the sources of a tenant, or nil if tenant is empty.
func (s *Service) sourcesOf(ctx context.Context, tenant string) (map[string]bool, error) {
	if tenant == "" {
		return nil, nil
	}
	rows, err := s.lister.Sources(ctx, tenant)
	names := make(map[string]bool, len(rows))
	for i := range rows {
		names[rows[i].Name] = true
	}
	return names, err
}

// SourceReference identifies a source.
type SourceReference struct {
	// Name is the name of a source.
	Name string `json:"name"`
}

// SecretSlot is a secret of a source, without its content.
type SecretSlot struct {
	// Credential is the credential to which the secret belongs. It is empty if the source has no credentials.
	Credential string `json:"credential,omitempty"`

	// From says where the secret is read from, such as env:STRIPE_SECRET.
	From string `json:"from"`

	// Until is when the secret stops being accepted. If it is absent, the secret does not expire.
	Until *time.Time `json:"until,omitempty"`
}

// SourceRoute is a route of a source.
type SourceRoute struct {
	// Name is the name of the route.
	Name string `json:"name"`

	// Types are the event types that the route takes. If there are none, it takes all.
	Types []string `json:"types,omitempty"`

	// Target is the name of the target and Kind its kind. Address is where it sends to, without credentials.
	Target  string `json:"target"`
	Kind    string `json:"kind"`
	Address string `json:"address,omitempty"`

	// Condition says that the route takes only events for which its condition is true.
	Condition bool `json:"condition,omitempty"`

	// Order is how the effects are ordered. It is empty if they are not.
	Order string `json:"order,omitempty"`

	// Paused is why the effects wait: the route's own pause, or the one of its target. It is absent if neither is paused.
	Paused *pause.Pause `json:"paused,omitempty"`
}

// SourceDetail is a source with its configuration. It contains no secret.
type SourceDetail struct {
	Source

	// ExternalURL is the address that the sender uses, for schemes that sign it.
	ExternalURL string `json:"external_url,omitempty"`

	// Secrets are where the secrets are read from, and until when each is accepted.
	Secrets []SecretSlot `json:"secrets"`

	// Settings are what the provider needs in addition to the secrets, as written in the configuration: a value, or
	// where it is read from.
	Settings map[string][]string `json:"settings,omitempty"`

	// Operations are the names of the operations that a source of operations declares.
	Operations []string `json:"operations,omitempty"`

	// Redact are the members of a body whose values are masked.
	Redact []string `json:"redact,omitempty"`

	// Emit says that the source accepts events from the SQL function emit.
	Emit bool `json:"emit,omitempty"`

	// MaxBody is the largest body in bytes. If it is absent, the provider's limit applies.
	MaxBody int64 `json:"max_body,omitempty"`

	// Broker says how consuming from the broker goes. It is absent if the source consumes from none.
	Broker *SourceBroker `json:"broker,omitempty"`

	// Reconcile says how its sender is asked which events there were. It is absent if the sender is not asked.
	Reconcile *SourceReconcile `json:"reconcile,omitempty"`

	// Routes are the routes in the order of the configuration.
	Routes []SourceRoute `json:"routes"`
}

// ShowSource shows one source.
var ShowSource = Operation[SourceReference, *SourceDetail]{
	ID: "show_source", Method: "GET", Path: "/sources/{name}", Scope: ReadMetadata,
	Summary: "Show one source with its settings, but without its secrets.",
	Do: func(ctx context.Context, s *Service, access Access, r SourceReference) (*SourceDetail, error) {
		rows, err := s.lister.Sources(ctx, access.Tenant)
		if err != nil {
			return nil, err
		}
		at := slices.IndexFunc(rows, func(row read.SourceRow) bool { return row.Name == r.Name })
		if at < 0 {
			return nil, notFound("source", r.Name)
		}
		paused, err := s.pauses(ctx, access)
		if err != nil {
			return nil, err
		}
		out := &SourceDetail{Source: s.source(&rows[at], paused), Secrets: []SecretSlot{}, Routes: []SourceRoute{}}
		if settings := s.configured(r.Name); settings != nil {
			out.configure(settings)
			if out.Reconcile, err = s.reconcileOf(ctx, rows[at].ID, settings); err == nil {
				out.Broker, err = s.brokerOf(ctx, rows[at].ID, settings)
			}
		}
		for i := range out.Routes {
			out.Routes[i].Paused = paused.OfRoute(r.Name, out.Routes[i].Name, out.Routes[i].Target)
		}
		return out, err
	},
}

// configure adds what the configuration says about the source.
func (d *SourceDetail) configure(settings *config.Source) {
	d.ExternalURL, d.Redact, d.Emit, d.MaxBody = config.RedactURLs(settings.ExternalURL), settings.Redact, settings.Emit, settings.MaxBody
	d.Secrets = append(d.Secrets, secretSlots("", settings.Secrets)...)
	for _, credential := range settings.Credentials {
		d.Secrets = append(d.Secrets, secretSlots(credential.Name, credential.Secrets)...)
	}
	for _, name := range slices.Sorted(maps.Keys(settings.Settings)) {
		if d.Settings == nil {
			d.Settings = map[string][]string{}
		}
		d.Settings[name] = settings.Settings[name].Written
	}
	for _, operation := range settings.Operations {
		d.Operations = append(d.Operations, operation.Name)
	}
	for _, route := range settings.Routes {
		shown := SourceRoute{Name: route.Name, Types: route.Types, Condition: route.When != nil}
		if route.Target != nil {
			shown.Target, shown.Kind, shown.Address = route.Target.Name, string(route.Target.Kind), route.Target.ShownURL()
		}
		if route.Order.Ordered() {
			shown.Order = string(route.Order.Mode)
		}
		d.Routes = append(d.Routes, shown)
	}
}

func secretSlots(credential string, references []config.Reference) []SecretSlot {
	slots := make([]SecretSlot, len(references))
	for i, reference := range references {
		slots[i] = SecretSlot{Credential: credential, From: reference.From}
		if until := reference.Until; !until.IsZero() {
			slots[i].Until = &until
		}
	}
	return slots
}
