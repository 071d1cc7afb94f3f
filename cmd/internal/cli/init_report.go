package cli

import (
	"fmt"
	"slices"
	"strings"
)

// setupReport is what `oncegate init` says as JSON.
type setupReport struct {
	File    string              `json:"file"`
	Sources []setupSourceReport `json:"sources"`
	Targets []string            `json:"targets"`

	// Unset are the references of the file that lead to nothing yet.
	Unset []string `json:"unset"`
	Next  []string `json:"next"`
}

// setupSourceReport says what to do for one sender.
type setupSourceReport struct {
	Name          string              `json:"name"`
	Title         string              `json:"title"`
	Address       string              `json:"address"`
	Secrets       []setupSecretReport `json:"secrets"`
	Documentation string              `json:"documentation,omitempty"`
	Notes         []string            `json:"notes"`
}

type setupSecretReport struct {
	Reference string `json:"reference"`
	About     string `json:"about"`
	Set       bool   `json:"set"`
}

func (o *setup) report() *setupReport {
	out := &setupReport{File: o.path, Targets: []string{}, Unset: append([]string{}, o.unset...)}
	if o.forward != "" {
		out.Targets = append(out.Targets, "forward")
	}
	if o.sql != "" {
		out.Targets = append(out.Targets, "database")
	}
	for i := range o.sources {
		out.Sources = append(out.Sources, o.sourceReport(&o.sources[i]))
	}
	option := ""
	if o.path != "oncegate.yml" {
		option = " --config " + o.path
	}
	for _, command := range []string{"config check", "migrate up", "serve"} {
		out.Next = append(out.Next, "oncegate "+command+option)
	}
	return out
}

func (o *setup) sourceReport(s *setupSource) setupSourceReport {
	spec := s.provider.Spec()
	out := setupSourceReport{
		Name: s.name, Title: spec.Title, Address: o.address(s.name), Documentation: spec.Docs,
		Secrets: []setupSecretReport{}, Notes: append([]string{}, spec.Notes...),
	}
	secret := func(reference, about string) {
		out.Secrets = append(out.Secrets, setupSecretReport{reference, about, !slices.Contains(o.unset, reference)})
	}
	for _, ref := range s.secrets {
		switch {
		case s.provider.IsOperation():
			secret(ref.reference, "the secret of the credential "+ref.name)
		case ref.name != "":
			secret(ref.reference, "the secret of the handshake ("+ref.name+")")
		default:
			secret(ref.reference, "the secret or key with which "+spec.Title+"'s deliveries are verified")
		}
	}
	for _, setting := range s.settings {
		if setting.spec.Secret {
			secret(setting.values[0], setting.spec.About)
		}
	}
	return out
}

// showSetup says what was written and what to do next.
func (s *shell) showSetup(o *setup) error {
	report := o.report()
	if s.output == "json" {
		return s.json(report)
	}
	fmt.Fprintf(s.out, "wrote %s: %s, %s\n", clean(o.path), count(len(report.Sources), "source"), count(len(report.Targets), "target"))
	for i := range report.Sources {
		source := &report.Sources[i]
		fmt.Fprintf(s.out, "\n%s\n", clean(source.Title))
		pairs := []pair{{"  register", source.Address}}
		for _, secret := range source.Secrets {
			pairs = append(pairs, pair{"  secret", secretPlaceText(secret.Reference) + ": " + secret.About})
		}
		pairs = append(pairs, pair{"  read", source.Documentation})
		page(s.out, pairs)
		for _, note := range source.Notes {
			fmt.Fprintln(s.out, "  note: "+clean(note))
		}
	}
	fmt.Fprintln(s.out, "\nNext:")
	step := 0
	next := func(text string) {
		step++
		fmt.Fprintf(s.out, "  %d. %s\n", step, clean(text))
	}
	if len(o.unset) > 0 {
		places := make([]string, len(o.unset))
		for i, reference := range o.unset {
			places[i] = secretPlaceText(reference)
		}
		next("fill in " + strings.Join(places, ", "))
	}
	if o.assumed {
		next("idempotent: false is assumed: write true if your service ignores a request whose Idempotency-Key it has seen")
	}
	for _, command := range report.Next {
		next(command)
	}
	return nil
}

// secretPlaceText says where a secret goes.
func secretPlaceText(reference string) string {
	if name, ok := strings.CutPrefix(reference, "env:"); ok {
		return "environment variable " + name
	}
	return "file " + strings.TrimPrefix(reference, "file:")
}
