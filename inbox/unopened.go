package inbox

import (
	"errors"

	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/inbox/seal"
)

// UnopenedReason says why sealed content cannot be opened: this process lacks the key, which another one may have, or
// no key opens the content.
func UnopenedReason(err error) (why reasons.Reason, missing int32) {
	if lost, ok := errors.AsType[*seal.LostError](err); ok {
		return reasons.KeyMissing, lost.Key
	}
	return reasons.Damaged, 0
}
