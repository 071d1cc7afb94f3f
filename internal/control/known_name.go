package control

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/oncegate/oncegate/inbox/pause"
)

// mayBeEmpty is an answer that may have found nothing.
type mayBeEmpty interface{ IsEmpty() bool }

// filterNames are the names that a request filters by.
type filterNames struct{ source, route, target, after string }

// checkNames refuses a request that found nothing because its filter names a source, a route or a target that does not
// exist: an empty list would say that the name is right and that nothing waits. A source of the configuration exists before
// it is registered. An access that is limited to a tenant gets the empty list, because its events may come from sources that
// belong to no tenant, and it must not learn the names of others.
func (s *Service) checkNames(ctx context.Context, access Access, request, answer any) error {
	found, ok := answer.(mayBeEmpty)
	if !ok || !found.IsEmpty() || access.Tenant != "" {
		return nil
	}
	var f filterNames
	f.read(reflect.ValueOf(request))
	if f.after != "" { // the last page may be empty
		return nil
	}
	for _, one := range []struct {
		kind pause.Kind
		name string
	}{{pause.Source, f.source}, {pause.Target, f.target}, {pause.Route, f.route}} {
		if one.name == "" {
			continue
		}
		names, err := s.knownNames(ctx, one.kind)
		if err != nil {
			return err
		}
		if one.kind == pause.Route {
			names = namesOfRoutes(names, f.source)
		}
		if !slices.Contains(names, one.name) {
			of := ""
			if one.kind == pause.Route && f.source != "" {
				of = " of source " + f.source
			}
			return &Problem{Code: CodeUnknownName, Detail: fmt.Sprintf("no %s%s is named %q; %s", one.kind, of, one.name, existing(one.kind, names))}
		}
	}
	return nil
}

// read reads the names from the fields of a request and of the filters in it.
func (f *filterNames) read(v reflect.Value) {
	if v.Kind() != reflect.Struct {
		return
	}
	for i := range v.NumField() {
		field := v.Type().Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch value := v.Field(i); {
		case field.Anonymous || name == "filter":
			f.read(value)
		case value.Kind() != reflect.String:
		case name == "source":
			f.source = value.String()
		case name == "route":
			f.route = value.String()
		case name == "target":
			f.target = value.String()
		case name == "after":
			f.after = value.String()
		}
	}
}

// knownNames returns all sources, routes or targets, sorted. A route is <source>/<route>.
func (s *Service) knownNames(ctx context.Context, kind pause.Kind) ([]string, error) {
	names, err := pause.Known(ctx, s.cfg.Lists, kind, "")
	if err != nil || s.cfg.Settings == nil {
		return names, err
	}
	for _, source := range s.cfg.Settings.Sources {
		switch kind {
		case pause.Source:
			names = append(names, source.Name)
		case pause.Route:
			for _, route := range source.Routes {
				names = append(names, source.Name+"/"+route.Name)
			}
		case pause.Target:
		}
	}
	if kind == pause.Target {
		for _, target := range s.cfg.Settings.Targets {
			names = append(names, target.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// namesOfRoutes returns the names of the routes of one source or, if that is empty, of all.
func namesOfRoutes(routes []string, source string) []string {
	var names []string
	for _, route := range routes {
		if of, name, _ := strings.Cut(route, "/"); source == "" || of == source {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
