package control

import (
	"context"
	"fmt"
	"reflect"
)

// Operation is something that a caller can read or do, declared once for the API, the command line and the console.
//
// A field of Request whose JSON name is in braces in Path is a part of the path. The other fields are the query of a
// GET or DELETE, and the JSON body of any other method. The command line has a flag for each field whose tag declares
// one, as in `flag:"--source only this source"`.
type Operation[Request, Response any] struct {
	// ID is the name in the API's description: a verb and a noun, such as list_events. It is unique.
	ID string

	// Method and Path are the API's, below /api/v1, such as GET /events/{ref}.
	Method, Path string

	// Scope is the scope that the caller needs.
	Scope Scope

	// Summary describes in one sentence what the operation does.
	Summary string

	// Secret says that the answer contains a secret, so it is not kept for a repeated request.
	Secret bool

	// Reads says that a POST changes nothing. It has a body because its parameters must not appear in an address. Its
	// answer may contain content and is never kept under an Idempotency-Key.
	Reads bool

	// Why is the question that the reason of a decision answers, and Confirm is what a person types to confirm the
	// decision. Either is empty if the command line does not ask for it.
	Why, Confirm string

	// Do carries it out. It must respect access.Tenant. What access.Scopes may not see is masked afterwards, by [Metadata].
	Do func(ctx context.Context, s *Service, access Access, request Request) (Response, error)
}

// Definition is an operation without its types, for code that serves or describes all operations.
type Definition interface {
	// Describe returns the operation's description.
	Describe() Description

	// Run carries the operation out. decode fills the request to which it gets a pointer.
	Run(ctx context.Context, s *Service, access Access, decode func(request any) error) (any, error)

	// carry does the operation on the database of s, with a request of the operation's type that Run has checked.
	carry(ctx context.Context, s *Service, access Access, request any) (any, error)
}

// Description is what the API's description and the client need to know about an operation.
type Description struct {
	ID, Method, Path  string
	Scope             Scope
	Summary           string
	Secret, Reads     bool
	Request, Response reflect.Type
}

// Describe returns the operation's description.
func (o *Operation[Request, Response]) Describe() Description {
	return Description{
		ID: o.ID, Method: o.Method, Path: o.Path, Scope: o.Scope, Summary: o.Summary, Secret: o.Secret, Reads: o.Reads,
		Request: reflect.TypeFor[Request](), Response: reflect.TypeFor[Response](),
	}
}

// Run carries the operation out, if access allows it, on the databases that it concerns.
func (o *Operation[Request, Response]) Run(ctx context.Context, s *Service, access Access, decode func(request any) error) (any, error) {
	if err := access.check(o.Scope); err != nil {
		return nil, err
	}
	var request Request
	if err := decode(&request); err != nil {
		return nil, err
	}
	if err := checkTexts(reflect.ValueOf(request), ""); err != nil {
		return nil, err
	}
	if err := access.checkSearches(reflect.ValueOf(request)); err != nil {
		return nil, err
	}
	if s.front != nil {
		return s.front.run(ctx, o, access, request)
	}
	if err := s.checkDatabase(access.Database); err != nil {
		return nil, err
	}
	return o.carry(ctx, s, access, request)
}

func (o *Operation[Request, Response]) carry(ctx context.Context, s *Service, access Access, given any) (any, error) {
	request, _ := given.(Request) // Run made it
	if !o.Describe().ReadsLists() {
		s = s.deciding // the lists may lag the primary, and a decision applies to the current state
	}
	answer, err := o.Do(ctx, s, access, request)
	if err != nil && o.Describe().ReadsLists() && isBroken(err) {
		err = &Problem{Code: CodeUnavailable} // nothing was to be changed, so the request can be repeated
	}
	if err != nil {
		return nil, access.maskError(s.explainLists(err))
	}
	if err := s.checkNames(ctx, access, request, answer); err != nil {
		return nil, err
	}
	access.mask(reflect.ValueOf(&answer).Elem())
	fillLists(reflect.ValueOf(&answer).Elem())
	return answer, nil
}

// Caller carries out operations, in this process or at a server.
type Caller interface {
	// Call carries out an operation. request has the operation's request type, and response is a pointer to its
	// response type.
	Call(ctx context.Context, operation Definition, request, response any) error
}

// Call carries out an operation with a caller.
func Call[Request, Response any](ctx context.Context, caller Caller, operation *Operation[Request, Response], request Request) (Response, error) {
	var response Response
	err := caller.Call(ctx, operation, request, &response)
	return response, err
}

// Local carries out operations in this process.
type Local struct {
	Service *Service
	Access  Access
}

// Call carries out an operation.
func (l *Local) Call(ctx context.Context, operation Definition, request, response any) error {
	answer, err := operation.Run(ctx, l.Service, l.Access, func(into any) error {
		reflect.ValueOf(into).Elem().Set(reflect.ValueOf(request))
		return nil
	})
	if err != nil {
		return err
	}
	value := reflect.ValueOf(response).Elem()
	if got := reflect.TypeOf(answer); got != value.Type() {
		return fmt.Errorf("operation %s gave a %v, want a %v", operation.Describe().ID, got, value.Type())
	}
	value.Set(reflect.ValueOf(answer))
	return nil
}
