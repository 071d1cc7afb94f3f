package inbox

import "github.com/oncegate/oncegate/inbox/reasons"

// Whether a caller may expect another end of a new call is another question than
// whether a fresh attempt may end otherwise ([Reason.Retriable]): a new call brings a
// body of its own, so a pruned one does not matter, and it is not made again because
// somebody mends a mapping. What both ask about is the last attempt, so the code that
// is stored beside the reason decides where a reason covers many answers: a reason of
// its own for each status would be stored for ever, say nothing of the effects that
// are dead already, and be unknown to older processes of the same deployment.

// finalReasons are the reasons of effects that did not happen for which the same call,
// made again under a new key, ends the same way, or must not be made again.
func finalReasons() []string {
	return []string{
		reasons.Mapping, reasons.Render, // the payload cannot be understood
		reasons.Status410, reasons.Mail5xx, // the target wants nothing of it
		string(ReasonNoKey), string(ReasonNoNumber), string(ReasonTie), string(ReasonAhead), string(ReasonLate), string(ReasonListOrder), // its place is in the payload
		string(ReasonParentPartial), string(ReasonDiscarded), string(ReasonPruned), // a person decided, perhaps did it by hand
	}
}

// finalStatuses are the answers of the reason status_4xx that are about the payload by
// their definition (RFC 9110, 15.5.14, 15.5.16 and 15.5.21). Any other 4xx may be an
// address or a credential that is mended: 400 is used for everything.
func finalStatuses() []string { return []string{"413", "415", "422"} }

// Of the effects x of an event, or their owners: one that is final. $4 and $5 are
// finalReasons and finalStatuses; class 22 is data that the database cannot use.
const finalEffect = `
    (coalesce(o.reason, e.reason) = ANY ($4::text[])
        OR coalesce(o.reason, e.reason) = 'status_4xx' AND CASE WHEN o.id IS NULL THEN e.last_code ELSE o.last_code END = ANY ($5::text[])
        OR coalesce(o.reason, e.reason) = 'sql_error' AND CASE WHEN o.id IS NULL THEN e.last_code ELSE o.last_code END LIKE '22___')`
