package cli

import (
	"fmt"

	"github.com/oncegate/oncegate/inbox/decide"
	"github.com/oncegate/oncegate/internal/control"
)

// batch is the result of one request of a decision about many objects.
type batch struct {
	matched, left int
	seen          control.Seen // names the objects that are left
}

// decideMany decides about many objects in batches. It first calls request with an empty seen, which counts the objects; a dry
// run ends there. Then it calls show, and the user confirms by typing the word. decideMany returns the count.
func (s *shell) decideMany(d decision, dryRun bool, word, doing string, show func(), request func(seen control.Seen) (batch, error)) (matched int, err error) {
	found, err := request("")
	if matched = found.matched; err != nil || dryRun || matched == 0 {
		return matched, err
	}
	if err := s.confirm(d, fmt.Sprintf("%s %d", word, matched), show); err != nil {
		return matched, err
	}
	bar := s.progress(int64(matched), doing)
	defer bar.done()
	for found.seen != "" {
		if found, err = request(found.seen); err != nil {
			return matched, err
		}
		bar.at(int64(matched - found.left))
	}
	return matched, nil
}

// nothing shows nothing.
func nothing() {}

// checkWhich refuses arguments that do not say clearly which of many things, such as "dead letters", a decision is about.
func checkWhich(things string, ids int, filtered, all bool) error {
	switch {
	case ids > 0 && (filtered || all):
		return usagef("name ids or a filter, not both")
	case ids == 0 && !filtered && !all:
		return usagef("name %s by id or by a filter, or say --all", things)
	}
	return nil
}

// checkMax checks --max of a decision about many objects.
func checkMax(most int) error {
	if most < 1 || most > decide.MaxDiscards {
		return usagef("--max %d: must be from 1 to %d", most, decide.MaxDiscards)
	}
	return nil
}

// tooMany describes the error of a decision that found more objects than --max.
func tooMany(err error, most int) error {
	if problemCode(err) == control.CodeBound {
		return failf(operationCode(control.CodeBound), "more than %d match and nothing was changed; narrow the filter or raise --max", most)
	}
	return refusedRequest(err)
}
