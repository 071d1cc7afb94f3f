package receiver

import (
	"context"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/providers"
)

// differing tells the caller of an operation what was recorded under their key: the key begins with
// their credential, so that it is theirs.
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

// differs answers a call whose key was used with another payload, with what became of the first call.
func (r *Receiver) differs(req *request, res *result) providers.Reply {
	ctx, cancel := context.WithTimeout(req.http.Context(), lookupTimeout)
	defer cancel()
	r.showOwn(ctx, req, &res.problem, res.event)
	if n := res.problem.next; n != "" && n != inbox.NextWait && n != inbox.NextAskOperator {
		res.problem.next = inbox.NextReplace // settled: something new may take its place
	}
	return answerCaller(req.source, res)
}
