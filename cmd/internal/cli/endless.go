package cli

import (
	"errors"
	"fmt"
)

// maxEmptyPages is how many pages in a row may be empty. A list whose search takes long answers some.
const maxEmptyPages = 1000

// endless notices a server whose list never ends.
type endless struct {
	seen  map[string]struct{}
	empty int
}

// check returns an error if the cursor of the next page is missing or was there before, or if too many pages were empty.
func (e *endless) check(next string, rows int) error {
	if e.seen == nil {
		e.seen = map[string]struct{}{}
	}
	if _, again := e.seen[next]; again || next == "" {
		return errors.New("the server's list does not go on: it says that there is more and gives no new cursor; check that --server is the private listener of an Oncegate")
	}
	e.seen[next] = struct{}{}
	if e.empty++; rows > 0 {
		e.empty = 0
	}
	if e.empty >= maxEmptyPages {
		return fmt.Errorf("the server's list does not end: %d pages in a row were empty; narrow the list, for example with --since", maxEmptyPages)
	}
	return nil
}
