package receiver

import (
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
	document, ok, err := r.cfg.Outcomes.Await(req.http.Context(), res.event, 0)
	switch {
	case err != nil: // that the payload differs is true without it
		r.logUnrecorded(req, err)
	case ok:
		res.problem.result = document
	default:
		res.problem.state = stateInFlight
	}
	return answerCaller(req.source, res)
}
