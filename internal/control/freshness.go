package control

import (
	"net/http"

	"github.com/oncegate/oncegate/internal/session"
)

// Freshness returns how old the data is that operations which only read show.
func (s *Service) Freshness() session.Freshness {
	if s.front != nil {
		return s.front.freshness()
	}
	if s.cfg.Freshness == nil {
		return session.Freshness{}
	}
	return s.cfg.Freshness()
}

// ReadsLists reports whether an operation reads lists, which may lag the primary.
func (d Description) ReadsLists() bool { return d.Method == http.MethodGet || d.Reads }

// explainLists says that it is the database of the lists that does not answer, if it is that one.
func (s *Service) explainLists(err error) error {
	if s.deciding == s || s.Freshness().Err == nil {
		return err
	}
	if problem := ProblemOf(err); problem.Code == CodeUnavailable && problem.Detail == "" {
		return &Problem{Code: CodeUnavailable, Detail: "lists are read by database.list_url, and that server does not answer; deliveries, effects and decisions do not need it"}
	}
	return err
}
