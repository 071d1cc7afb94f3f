package server

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/oncegate/oncegate/internal/app"
	"github.com/oncegate/oncegate/internal/config"
)

// Handle attaches a handler to the routes of this name that have no target. Call it before the Server runs, once for
// each such name. Run also returns an error of Handle.
func (s *Server) Handle(route string, handler app.Handler) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase != opened {
		return fmt.Errorf("attaching a handler to route %q: %w", route, s.phase.refusal())
	}
	err := s.check(route, handler)
	if err != nil {
		s.mistakes = append(s.mistakes, err)
		return err
	}
	s.handlers[route] = handler
	return nil
}

func (s *Server) check(route string, handler app.Handler) error {
	if _, twice := s.handlers[route]; twice {
		return fmt.Errorf("route %q has two handlers: attach one", route)
	}
	if handler.Transactional == nil && handler.Sender == nil {
		return fmt.Errorf("the handler of route %q is nil", route)
	}
	if names := s.handled(); !slices.Contains(names, route) {
		if len(names) == 0 {
			return fmt.Errorf("there is no route %q without a target: every route of the configuration has one", route)
		}
		return fmt.Errorf("there is no route %q without a target; those that need a handler are %s", route, strings.Join(names, ", "))
	}
	return nil
}

// handled returns the names of the routes that need a handler.
func (s *Server) handled() (names []string) {
	for _, t := range s.cfg.Settings.Targets {
		if t.Kind == config.KindHandler {
			names = append(names, t.Name)
		}
	}
	return names
}

// complete returns an error for each invalid or missing handler.
func (s *Server) complete() error {
	errs := slices.Clone(s.mistakes)
	if s.cfg.Work {
		for _, source := range s.cfg.Settings.Sources {
			for _, r := range source.Routes {
				if _, ok := s.handlers[r.Target.Name]; r.Target.Kind == config.KindHandler && !ok {
					errs = append(errs, fmt.Errorf("route %q of source %q has neither a target nor a handler: call Handle(%q, ...) before Run", r.Name, source.Name, r.Name))
				}
			}
		}
	}
	return errors.Join(errs...)
}
