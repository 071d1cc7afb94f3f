package console

import (
	"net/url"
	"slices"
	"strings"

	"github.com/oncegate/oncegate/inbox"
	"github.com/oncegate/oncegate/inbox/reasons"
	"github.com/oncegate/oncegate/internal/control"
)

// remedy says why an effect did not happen, and what an operator changes so that a replay succeeds. TARGET is replaced
// with the name of the target, and CODE with the target's answer.
type remedy struct{ why, mend string }

// remedies are the known remedies for each reason.
var remedies = map[string]remedy{
	reasons.Render:                     {"The request could not be built for this event.", "Correct the route in the configuration file and restart the server."},
	reasons.Mapping:                    {"An expression of the route failed for this event.", "Correct the expression in the configuration file and restart the server."},
	reasons.Stopped:                    {"The server stopped during the attempt.", "Replay it without a change."},
	reasons.Address:                    {"The address of the target is private or special, and the configuration does not allow it.", "If the address is right, add its network to targets.TARGET.allow in the configuration file; otherwise correct the address there. Then restart the server. Link-local addresses, metadata services and multicast are never allowed."},
	reasons.DNS:                        {"The host name of the target was not found.", "Correct the address of targets.TARGET in the configuration file and restart the server, or mend the name service."},
	reasons.Connect:                    {"There was no connection to the target.", "Start the target, or correct the address of targets.TARGET in the configuration file and restart the server."},
	reasons.TLS:                        {"The TLS handshake with the target failed.", "Renew the certificate of the target, or correct the address of targets.TARGET in the configuration file."},
	reasons.Timeout:                    {"The target did not answer in time.", "Look at what slows the target down, or raise targets.TARGET.timeout in the configuration file."},
	reasons.Connection:                 {"The connection broke after something was sent.", "Look at the target and at the network between it and this server."},
	reasons.Reply:                      {"The reply of the target is malformed.", "Mend the target, or correct the address of targets.TARGET in the configuration file."},
	reasons.Informational:              {"The target answered CODE, which ends no request.", "Mend the target."},
	reasons.Redirect:                   {"The target answered CODE, a redirect, which is never followed.", "Put the address to which it leads into targets.TARGET in the configuration file and restart the server."},
	reasons.Status408:                  {"The target answered CODE: the request took too long.", "Look at what slows the target down."},
	reasons.Status409:                  {"The target answered CODE: the request conflicts with what it has.", "Look at what the target said below, and mend it there."},
	reasons.Status410:                  {"The target answered CODE: its address is gone for good.", "Put the new address into targets.TARGET in the configuration file and restart the server."},
	reasons.Status425:                  {"The target answered CODE: it did not want the request yet.", "Look at what the target said below, and replay it later."},
	reasons.Status429:                  {"The target answered CODE: it got too many requests.", "Lower the rate of targets.TARGET in the configuration file, and replay it at a low rate."},
	reasons.Status4xx:                  {"The target refused the request with CODE.", "Look at what the target said below. Mend the target, or correct targets.TARGET in the configuration file and restart the server."},
	reasons.Status503:                  {"The target answered CODE: it was not available.", "Bring the target back."},
	reasons.Status5xx:                  {"The target failed with CODE.", "Look at what the target said below, and mend the target."},
	reasons.Mail4xx:                    {"The mail server refused the message for the moment, with CODE.", "Look at what the mail server said below, and replay it later."},
	reasons.Mail5xx:                    {"The mail server refused the message with CODE.", "Look at what the mail server said below. Correct the address or targets.TARGET, and restart the server."},
	reasons.Unroutable:                 {"No topic, stream or queue of the broker takes the message.", "Create it at the broker, or correct targets.TARGET in the configuration file and restart the server."},
	reasons.TooLarge:                   {"The message is larger than the broker takes.", "Raise the limit that the answer below names, at the broker or in targets.TARGET.max_message, and replay it."},
	reasons.BrokerRefused:              {"The broker refused the message: CODE.", "Look at what the broker said below. Give the account the right that it lacks, make room, or correct targets.TARGET in the configuration file."},
	reasons.Serialization:              {"The transaction met others too often.", "Replay it when less is going on."},
	reasons.Deadlock:                   {"The transaction met others in a deadlock.", "Replay it when less is going on."},
	reasons.LockTimeout:                {"The statement waited too long for a lock.", "Find the session that has the lock in the database."},
	reasons.SQLTimeout:                 {"The statement took too long.", "Look at its plan in the database."},
	reasons.Unavailable:                {"The database of the target was not available.", "Bring the database back."},
	reasons.SQL:                        {"The statement failed with CODE.", "Look at what the database said below. Correct the statement in the configuration file, or mend the tables."},
	reasons.Handler:                    {"The handler returned an error.", "Look at the error below, and correct the program."},
	string(reasons.FetchFailed):        {"What the event names could not be fetched: there was no answer, or the server that was asked has a problem. Nothing was sent to the target.", "Look at the attempts below. Mend the network or wait for that server, and replay it."},
	string(reasons.FetchRefused):       {"What the event names could not be fetched, with CODE, and a retry would get the same answer. Nothing was sent to the target.", "Look at the attempts below. Renew the credential of the route's fetch, correct its url, hosts or max_size in the configuration file and restart the server, or discard the effect if the thing no longer exists."},
	string(reasons.Panic):              {"The handler panicked.", "Look at the log of the server, and correct the program."},
	string(reasons.Route):              {"The configuration no longer has this route.", "Bring the route back in the configuration file and restart the server."},
	string(reasons.BodyGone):           {"The body of the event is gone: it was pruned or erased.", "It cannot be sent any more. Discard it, or have the sender deliver the event again under a new id."},
	string(reasons.ArchiveUnavailable): {"The body of the event is in the archive, and the archive does not answer.", "Run oncegate doctor on the server. The effect waits and uses no attempt."},
	string(reasons.ArchiveDamaged):     {"The archive's body is not the one that was recorded.", "Bring the object of the archive back from a copy and replay it. Otherwise discard it, or have the sender deliver the event again under a new id."},
	string(reasons.Deadline):           {"Its deadline passed before it succeeded.", "If it may still happen, replay it."},
	string(reasons.Exhausted):          {"Every attempt failed.", "Look at the attempts below."},
	string(reasons.KeyWindow):          {"The target remembers its idempotency key no longer.", "Ask the target whether it happened. If it did not, replay it under a new key."},
}

// remedyOf returns why effects of a target failed for a reason, and what to change.
func remedyOf(reason, target, code string) remedy {
	found, known := remedies[reason]
	if !known {
		return remedy{why: "The reason: " + words(reason) + ".", mend: "Mend the cause."}
	}
	fill := strings.NewReplacer("TARGET", target, "CODE", or(code, "an error"))
	return remedy{why: fill.Replace(found.why), mend: fill.Replace(found.mend)}
}

// lastReasons only say that no attempt follows, not why the last one failed.
var lastReasons = []reasons.Reason{reasons.Exhausted, reasons.Deadline, reasons.KeyWindow}

// lastFailure returns why an effect failed: the reason of its last attempt, if its own reason only says that no attempt
// follows.
func lastFailure(e *control.Effect) string {
	n := len(e.AttemptRows)
	if n > 0 && e.AttemptRows[n-1].Reason != "" && slices.Contains(lastReasons, reasons.Reason(e.Reason)) {
		return e.AttemptRows[n-1].Reason
	}
	return e.Reason
}

// deadBlock shows why a dead effect did not happen and what to change, with a link.
func deadBlock(r *request, e *control.Effect, said string) block {
	found := remedyOf(lastFailure(e), e.Target, e.Code)
	b := block{Notice: &notice{Kind: "bad", Text: said + " " + found.why, Detail: found.mend}}
	if r.may(control.Operate) {
		b.Notice.Detail += " Then plan a replay, or discard it."
	}
	b.Links = append(b.Links, link{Text: "Where its route sends", Href: "/sources/" + url.PathEscape(e.Source) + "#routes"})
	return b
}

// eventRemedies returns notices for the first effects of an event that wait for an operator.
func eventRemedies(r *request, effects []*control.Effect) []block {
	var out []block
	for _, e := range effects {
		if len(out) == shownPlaces {
			break
		}
		name := e.Route + " → " + e.Target
		switch inbox.EffectState(e.State) { //nolint:exhaustive // the others need no operator
		case inbox.EffectDead:
			b := deadBlock(r, e, name+" did not happen.")
			b.Links = append([]link{{Text: "All attempts of " + name, Href: effectLink(e.ID)}}, b.Links...)
			if r.may(control.Operate) {
				b.Links = append(b.Links, link{Text: "Plan a replay of it", Href: to("/replays/new", "ids", e.ID.String())})
			}
			out = append(out, b)
		case inbox.EffectIndeterminate:
			out = append(out, block{
				Notice: &notice{Kind: "warn", Text: "Nobody knows whether " + name + " happened: its sending began, and no answer said how it ended."},
				Links:  []link{{Text: "Decide about " + name, Href: effectLink(e.ID)}},
			})
		}
	}
	return out
}
