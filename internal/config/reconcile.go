package config

import (
	"errors"
	"net/netip"
	"time"

	"github.com/oncegate/oncegate/internal/yamltree"
	"github.com/oncegate/oncegate/providers"
)

// Reconcile configures how a sender's API is asked which events there were.
type Reconcile struct {
	// Credential proves to the API who asks.
	Credential Reference

	// Base replaces the provider's address of the API; empty does not.
	Base string

	// Params are the provider's parameters, such as an account.
	Params map[string]string

	// Allow lists networks that may be asked although they are not public.
	Allow []netip.Prefix

	// Types are the types of events that are asked for, as patterns. Empty means the types that
	// a route of the source takes, or all types if it has no route.
	Types []string

	// Since is how far back a run without a beginning asks.
	Since time.Duration

	// Every is how often a worker asks by itself; 0 is never.
	Every time.Duration

	listing *providers.Listing
}

// Listing returns the list of the sender's events.
func (c *Reconcile) Listing() *providers.Listing { return c.listing }

// ReconciledTypes returns the types of events that a reconciliation of the source asks for.
func (s *Source) ReconciledTypes() []string {
	switch {
	case len(s.Reconcile.Types) > 0:
		return s.Reconcile.Types
	case len(s.Routes) == 0:
		return []string{"*"}
	}
	var out []string
	for _, r := range s.Routes {
		out = append(out, r.Types...)
	}
	return out
}

// Secret returns the credential.
func (c *Reconcile) Secret() providers.Secret { return c.Credential.secret }

// shortestEvery is the shortest time between two scheduled runs. Each run asks for at least one page.
const shortestEvery = time.Minute

func (c *Reconcile) keys() []Key {
	return []Key{
		{
			Name: "credential", Default: "required", Text: "The credential of the sender's API, as a [reference](#secrets). `oncegate providers show` says which one and which permission it needs.", schema: secretSchema,
			read: func(r *reader, n *yamltree.Node) { c.Credential, _ = r.secret(n) },
			show: func() (any, bool) { return c.Credential.printed(), c.Credential.From != "" },
		},
		value("base", &c.Base, words(verbatim), "the provider's", "The address of the API, for a sandbox or for a server of your own. It must be https; http is accepted for a loopback address."),
		{
			Name: "params", Default: "none", Text: "What the provider's list needs to know, by name, such as an account or the number of a webhook. `oncegate providers show` lists it.", schema: mappingOf(scalar),
			read: func(_ *reader, n *yamltree.Node) { c.Params = reconcileParams(n) },
			show: func() (any, bool) { return byKey(c.Params, func(s string) any { return s }), len(c.Params) > 0 },
		},
		list("types", &c.Types, words(glob), "those of the routes", "The types of events that the webhook is subscribed to, written like the `types` of a route. The list of a sender contains all types, and Oncegate admits only these.").notEmpty("; leave it out to ask for the types that routes take"),
		list("allow", &c.Allow, network, "none", "Private networks that `base` may lead to."),
		value("since", &c.Since, duration, "`24h`", "How far back a run asks that is not given a beginning, and a scheduled one that has no predecessor.").starts(),
		value("every", &c.Every, form[time.Duration]{reconcileEvery, durationText, durationSchema}, "never", "How often a worker does it by itself, from `1m`. A scheduled run begins an hour before the end of the last complete one."),
	}
}

func reconcileParams(n *yamltree.Node) map[string]string {
	out := map[string]string{}
	for _, member := range n.Members() {
		if text, ok := member.Text(); ok {
			out[member.Name()] = text
		}
	}
	return out
}

func reconcileEvery(s string) (time.Duration, error) {
	d, err := yamltree.PositiveDuration(s)
	if err == nil && d < shortestEvery {
		err = errors.New("shorter than 1m")
	}
	return d, err
}

// reconcile reads how the sender of a source is asked, and checks it with the provider.
func (r *reader) reconcile(s *Source, n *yamltree.Node) {
	if n == nil {
		return
	}
	c := &Reconcile{}
	start(c.keys())
	r.fields(n, c.keys())
	if s.Provider == nil || !n.Sound() {
		return
	}
	spec := s.Provider.Spec()
	if !spec.Reconcile.Present() {
		n.FailKey("%s cannot be reconciled: the catalogue knows no list of its events in which they could be recognised; if its sender has one, describe it in a provider of your own that extends %s", s.Provider.Name(), s.Provider.Name())
		return
	}
	if c.Credential.From == "" {
		n.Fail("credential is missing: a reference such as env:%s_API_KEY, to %s", variableOf(s.Name), spec.Reconcile.Auth.About)
		return
	}
	if spec.Reconcile.Signed && s.Provider.CheckSettings(s.Values()) != nil {
		return // which is reported at the settings
	}
	listing, err := s.Provider.Listing(providers.Reconciling{Base: c.Base, Params: c.Params, Settings: s.Values()})
	failLines(n, err)
	if secret := c.Secret(); err == nil && len(secret.Value) > 0 {
		if _, err := listing.CheckCredential(secret.Value); err != nil {
			n.Below("credential").Fail("%s %v", secret.Name, err)
		}
	}
	if kept := time.Duration(spec.Windows.List.For); kept > 0 && c.Since > kept {
		n.Below("since").Fail("%s keeps events for %s only", spec.Title, yamltree.FormatDuration(kept))
	}
	c.listing = listing
	s.Reconcile = c
}
