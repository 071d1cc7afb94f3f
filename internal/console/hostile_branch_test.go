package console_test

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/internal/control"
	"github.com/oncegate/oncegate/internal/control/controltest"
)

// isSteered knows the texts by which pages choose what to show. They are attacks too, and in other runs words that pages know:
// each shows other parts of a page, in which everything else is an attack.
func isSteered(name string, kind reflect.Type) bool {
	switch name {
	case "State", "Admission", "Format", "Kind", "Reason", "Outcome", "Action", "Cause", "Trigger", "Verdict", "Status", "Passed", "As":
		return true
	}
	return kind.Kind() == reflect.String && kind.PkgPath() != "" // a type of its own has known values
}

// steering is one way for a page to go.
type steering struct {
	word   string // of what is steered; empty is an attack
	number int64
	yes    bool
	empty  bool // lists have no rows, and what may be missing is
}

func (s *steering) steer(v reflect.Value, steered bool) {
	switch v.Type() {
	case reflect.TypeFor[inbox.ID](), reflect.TypeFor[time.Time](), reflect.TypeFor[json.RawMessage]():
		return
	}
	switch v.Kind() { //nolint:exhaustive // answers are made of these
	case reflect.String:
		if steered && s.word != "" {
			v.SetString(s.word)
		}
	case reflect.Bool:
		v.SetBool(s.yes)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(s.number)
	case reflect.Pointer:
		if s.empty {
			v.SetZero()
		} else if !v.IsNil() {
			s.steer(v.Elem(), steered)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				s.steer(v.Field(i), isSteered(f.Name, f.Type))
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		if s.empty {
			v.SetLen(0)
		}
		for i := range v.Len() {
			s.steer(v.Index(i), steered)
		}
	}
}

// steered answers as filler does, and steers pages.
type steered struct {
	*controltest.Filler
	steering
}

func (s *steered) Call(ctx context.Context, operation control.Definition, request, response any) error {
	if err := s.Filler.Call(ctx, operation, request, response); err != nil {
		return err
	}
	answer := reflect.ValueOf(response).Elem()
	if answer.Kind() == reflect.Pointer { // an answer is always there
		answer = answer.Elem()
	}
	s.steer(answer, false)
	return nil
}

// steeringWords are all that pages know: the states of everything, and the kinds of what is shown.
func steeringWords() []string {
	words := append(control.EffectStates(), control.Admissions()...)
	words = append(words, string(reasons.NoKey), string(reasons.NoNumber), string(reasons.Tie))
	return append(words, "", "json", "other", "planned", "planning", "running", "cancelled", "expired", "live", "silent", "configured", "active", "revoked", "create", "rearm",
		"resend", "leave_out", "mismatch", "recorded", "same", "changed", "done", "failed", "event", "effect", "conflict", "refusal")
}

// Whatever a page comes to show, in whatever state things are, what comes from elsewhere is text.
func TestEveryPartOfAPageShowsAttacksAsText(t *testing.T) {
	t.Parallel()
	for _, word := range steeringWords() {
		for _, way := range []steering{{word, 7, true, false}, {word, 1, false, false}, {word, 0, false, true}} {
			c := newConsole(t, &steered{filler(attack), way}, control.Admin)
			for _, path := range pagePaths() {
				answer := get(t, c, path)
				if answer.Code >= http.StatusInternalServerError {
					t.Errorf("%s with %+v: %d", path, way, answer.Code)
				}
				checkHostile(t, path+" where things are "+word, answer.Body.String())
			}
		}
	}
}

// Each text of each answer that pages show is an attack: a text that the filler leaves empty would be a hole in these tests.
func TestEveryTextOfAnAnswerIsAnAttack(t *testing.T) {
	t.Parallel()
	for _, operation := range control.Operations() {
		d := operation.Describe()
		response := reflect.New(d.Response)
		if err := filler(attack).Call(t.Context(), operation, nil, response.Interface()); err != nil {
			t.Fatal(err)
		}
		checkFilled(t, d.ID, response.Elem(), 0)
	}
}

// checkFilled fails for a text that is no attack.
func checkFilled(t *testing.T, at string, v reflect.Value, depth int) {
	t.Helper()
	switch v.Type() {
	case reflect.TypeFor[inbox.ID](), reflect.TypeFor[time.Time]():
		return
	}
	switch v.Kind() { //nolint:exhaustive // answers are made of these
	case reflect.String:
		if v.String() != attack {
			t.Errorf("%s is %q and no attack", at, v.String())
		}
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			t.Errorf("%s is nothing and no attack", at)
			return
		}
		checkFilled(t, at, v.Elem(), depth)
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				checkFilled(t, at+"."+f.Name, v.Field(i), depth)
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			if !strings.Contains(string(v.Bytes()), "script") {
				t.Errorf("%s is %q and no attack", at, v.Bytes())
			}
			return
		}
		if v.Len() == 0 && depth < 6 {
			t.Errorf("%s is empty", at)
		}
		for i := range v.Len() {
			checkFilled(t, at, v.Index(i), depth+1)
		}
	case reflect.Map:
		if v.Len() == 0 {
			t.Errorf("%s is empty", at)
		}
		for key, value := range v.Seq2() {
			checkFilled(t, at, key, depth+1)
			checkFilled(t, at, value, depth+1)
		}
	}
}
