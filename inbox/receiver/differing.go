package receiver

import (
	"context"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/operation"
	"github.com/oncegate/oncegate/providers"
)

// differing adds the payload that was recorded under the key to the answer for the caller of an
// operation. The key begins with the caller's credential, so the payload belongs to the caller.
func (p *problem) differing(item *inbox.ItemReceipt) {
	p.paths, p.payload = item.Paths, item.Original
	switch item.OriginalGone {
	case "":
	case inbox.OriginalPruned:
		p.detail = "the payload that was recorded is not kept any more; two payloads were compared by their hashes"
	case inbox.OriginalSealed:
		p.detail = "the payload that was recorded is sealed with a key that is not at hand; two payloads were compared by their hashes"
	case inbox.OriginalNotJSON:
		p.detail = "the payload that was recorded is not JSON, and is not shown"
	case inbox.OriginalTooLarge:
		p.detail = "the payload that was recorded is too large to be shown"
	}
}

// differs answers a call whose key was used with another payload. The answer includes the outcome of
// the first call.
func (o *operations) differs(req *request, res *result) providers.Reply {
	ctx, cancel := context.WithTimeout(req.http.Context(), lookupTimeout)
	defer cancel()
	o.showOwn(ctx, req, &res.problem, res.event)
	if n := res.problem.next; n != "" && n != operation.NextWait && n != operation.NextAskOperator {
		res.problem.next = operation.NextReplace // it is settled, so a new call may replace it
	}
	return answerCaller(req.source, res)
}
