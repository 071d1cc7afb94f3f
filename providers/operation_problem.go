package providers

// Problem says which part of a call is missing or wrong, so that a program can correct the call.
// The receiver's table of codes has a row for each: never change one.
type Problem string

// These are the problems of a call whose operation cannot be identified.
const (
	// ProblemMissingOperation means that the call names no operation.
	ProblemMissingOperation Problem = "missing_operation"
	// ProblemInvalidOperation means that the name of the operation has an invalid form.
	ProblemInvalidOperation Problem = "invalid_operation"
	// ProblemMissingKey means that the key, or a part of it, is missing.
	ProblemMissingKey Problem = "missing_key"
	// ProblemKeyNotAllowed means that a call under a session has a key.
	ProblemKeyNotAllowed Problem = "key_not_allowed"
	// ProblemInvalidKey means that the key has an invalid form.
	ProblemInvalidKey Problem = "invalid_key"
)

// unidentified refuses a verified call that does not identify its operation correctly. The detail
// is for the caller.
func unidentified(problem Problem, detail string) *Refusal {
	err := refuse(ReasonUnidentified, detail)
	err.Problem = problem
	return err
}
