package console

import (
	"fmt"
	"strings"

	"github.com/oncegate/oncegate/internal/control"
)

// reasonField asks why something is done. The audit keeps the reason.
func reasonField() field {
	return field{Name: "reason", Label: "Reason", Required: true, Hint: "The audit keeps it with your name."}
}

// typedField asks the user to type a word, so that no decision is made by an accidental click.
func typedField(word string) field {
	return field{Name: "confirm", Label: "Type " + word + " to confirm", Required: true}
}

// why reads the reason of a form, and checks the word that the user must type, if there is one.
func (r *request) why(word string) (control.Explained, error) {
	if word != "" && strings.TrimSpace(r.PostFormValue("confirm")) != word {
		return control.Explained{}, &control.Problem{Code: control.CodeInvalid, Detail: fmt.Sprintf("type %q to confirm", word)}
	}
	reason := strings.TrimSpace(r.PostFormValue("reason"))
	if reason == "" {
		return control.Explained{}, &control.Problem{Code: control.CodeInvalid, Detail: "enter a reason"}
	}
	return control.Explained{Reason: reason}, nil
}

// hidden is a field that a form sends back unchanged.
func hidden(name, value string) field { return field{Name: name, Value: value, Kind: "hidden"} }

// match returns the state that a decision is about, from the form.
func (r *request) match() control.Match { return control.Match{IfMatch: r.PostFormValue("tag")} }
