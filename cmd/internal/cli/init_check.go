package cli

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/providers/catalog"
)

// checkSetup checks the text of the file as `oncegate config check` does. References that lead to
// nothing yet are no problem; they are remembered.
func (s *shell) checkSetup(o *setup, content string) error {
	cfg, err := config.Load(config.Options{File: o.path, Content: []byte(content), Environ: s.withoutSources(), Catalog: new(catalog.Lazy)})
	if err == nil {
		return s.checkStart(context.Background(), cfg)
	}
	problems, ok := errors.AsType[config.Problems](err)
	if !ok {
		return err
	}
	references := o.references()
	var wrong config.Problems
	unset := make([]bool, len(references))
	for _, problem := range problems {
		at := slices.IndexFunc(references, func(r string) bool { return leadsNowhere(problem.Text, r) })
		if at < 0 {
			wrong = append(wrong, problem)
			continue
		}
		unset[at] = true
	}
	if len(wrong) > 0 {
		return wrong
	}
	for i, reference := range references {
		if unset[i] {
			o.unset = append(o.unset, reference)
		}
	}
	return nil
}

// leadsNowhere reports whether a problem is that a variable is not set or a file not there.
func leadsNowhere(problem, reference string) bool {
	if name, ok := strings.CutPrefix(reference, "env:"); ok {
		// Several variables may name the database, so a missing one has another message.
		return name == "DATABASE_URL" && strings.HasPrefix(problem, "no database: set DATABASE_URL ") || strings.HasPrefix(problem, "environment variable "+name+" is ")
	}
	return strings.Contains(problem, strings.TrimPrefix(reference, "file:")+": no such file")
}

// references returns all references in the file.
func (o *setup) references() []string {
	out := []string{"env:DATABASE_URL"}
	if strings.HasPrefix(o.forward, "env:") || strings.HasPrefix(o.forward, "file:") {
		out = append(out, o.forward)
	}
	for i := range o.sources {
		for _, secret := range o.sources[i].secrets {
			out = append(out, secret.reference)
		}
		for _, setting := range o.sources[i].settings {
			for _, value := range setting.values {
				if strings.HasPrefix(value, "env:") || strings.HasPrefix(value, "file:") {
					out = append(out, value)
				}
			}
		}
	}
	return out
}

// withoutSources returns the environment without the variables that would add a source, because the
// file describes all of them.
func (s *shell) withoutSources() []string {
	return slices.DeleteFunc(slices.Clone(s.environ), func(pair string) bool {
		return strings.HasPrefix(pair, "ONCEGATE_SOURCE_") || strings.HasPrefix(pair, "ONCEGATE_FORWARD_")
	})
}
