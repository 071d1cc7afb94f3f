package operation

import "github.com/oncegate/oncegate/inbox/reasons"

// Whether a new call may end otherwise is a different question from whether a new
// attempt may ([reasons.Reason.Retriable]): a new call brings a new body, so a pruned one does
// not matter, and repairing a mapping does not repeat the call. Both questions are
// about the last attempt, so if a reason covers many answers, the stored code decides.
// A separate reason for each status would be stored forever, would not apply to effects
// that are dead already, and would be unknown to older processes of the same
// deployment.

// finalReasons returns the reasons of effects that did not happen and for which the
// same call, made again under a new key, ends the same way or must not be made.
func finalReasons() []string {
	return []string{
		reasons.Mapping, reasons.Render, // the payload cannot be understood
		reasons.Status410, reasons.Mail5xx, // the target rejects it permanently
		string(reasons.NoKey), string(reasons.NoNumber), string(reasons.Tie), string(reasons.Ahead), string(reasons.Late), string(reasons.ListOrder), // its place is in the payload
		string(reasons.ParentPartial), string(reasons.Discarded), string(reasons.Pruned), // a person decided, perhaps did it by hand
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
