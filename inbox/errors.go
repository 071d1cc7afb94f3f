package inbox

import "errors"

// ErrNotFound is returned when nothing has the name or id that was asked for.
var ErrNotFound = errors.New("not found")

// ErrState is returned for something that the effect's state does not allow.
var ErrState = errors.New("the effect's state does not allow it")

// ErrRouteGone is returned for sending an effect again whose route neither the latest started
// server nor any live process has, so that no process would carry it out.
var ErrRouteGone = errors.New("the route is gone from the configuration: no process would carry the effect out")

// ErrRouteKnown is returned for clearing a route whose effects servers carry out.
var ErrRouteKnown = errors.New("the servers know the route and carry its effects out")

// The SQLSTATEs of the fences of package move. CodeMoved refuses an event of a source that lives in another database, and
// CodeMovedEffect an effect whose order or key another database decides about.
const (
	CodeMoved       = "OG001"
	CodeMovedEffect = "OG002"
)
