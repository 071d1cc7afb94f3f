// Package errorcode declares the codes that the command line prints at the end of its errors: what each means, what to do
// next, and the exit code. Errors of operations have the codes of [control.Codes], and refused calls of operations those
// of [receiver.Codes].
package errorcode

import (
	"slices"

	"github.com/oncegate/oncegate/inbox/receiver"
	"github.com/oncegate/oncegate/internal/control"
)

// Code names the kind of an error. Scripts compare it: never change one.
type Code string

// Meaning is a row of the table of codes.
type Meaning struct {
	Code Code

	// Exit is the exit code of a command that ends with the error.
	Exit int

	// Title describes the error in a few words.
	Title string

	// Next is what the user should do next.
	Next string
}

// All returns the table of codes.
func All() []Meaning { return slices.Clone(meanings[:]) }

// Exit returns the exit code of a command that ends with an error of the table. It is 0 for another code.
func Exit(code Code) int {
	if i := slices.IndexFunc(meanings[:], func(m Meaning) bool { return m.Code == code }); i >= 0 {
		return meanings[i].Exit
	}
	return 0
}

// Known reports whether the documentation explains a code. A newer server may send one that it does not.
func Known(code Code) bool {
	return Exit(code) != 0 ||
		slices.ContainsFunc(control.Codes(), func(m control.CodeMeaning) bool { return string(m.Code) == string(code) }) ||
		IsOfCall(code)
}

// IsOfCall reports whether a server refuses calls of operations with the code.
func IsOfCall(code Code) bool {
	return slices.ContainsFunc(receiver.Codes(), func(m receiver.CodeMeaning) bool { return string(m.Code) == string(code) })
}
