package inbox

import "errors"

// ErrCalledAgain is returned for sending an effect again whose operation a later call
// repeats: the caller named this one as its parent, and got, or will get, what they
// wanted under another key.
var ErrCalledAgain = errors.New("a later call names the effect's operation as its parent: sent again, it may happen twice")
