package inbox

import (
	"crypto/sha256"
	"errors"
)

// FollowKind says how a call of an operation follows an earlier one. Stored: never change.
type FollowKind string

// How a call follows an earlier one. Stored: never change.
const (
	// FollowResumes continues the intent of the earlier call: an effect of it is carried out
	// only if it certainly did not happen.
	FollowResumes FollowKind = "resumes"
	// FollowInsteadOf is a new intent that takes the place of the earlier call's: all of it is carried out.
	FollowInsteadOf FollowKind = "instead_of"
)

// Follow says which earlier call a call follows, and how.
type Follow struct {
	Kind FollowKind

	// Parent is the event of the earlier call, and ParentKey its whole key: <credential>:<operation>:<key>.
	Parent    ID
	ParentKey string

	// Intent is the [RecentCallHash] of the call that follows. A call that resumes has its parent's hash.
	Intent [sha256.Size]byte
}

// ErrNotFollowed means that a call cannot follow the earlier one as that is now: it has no settled result,
// another call follows it already, or what it did is not kept any more. [operation.Store.FollowedCall] says which.
// Nothing was recorded.
var ErrNotFollowed = errors.New("the call cannot follow the earlier one as that is now")
