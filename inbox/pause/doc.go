// Package pause lets an operator pause and resume a source, a route or a target while everything runs.
//
// A row of the table pause is a pause. [Set] inserts it and [Lift] deletes it. Each also writes an entry of the audit. The
// unique constraint pause_key decides between two callers that pause the same thing at once. Both get the same [Pause].
//
// Every process has a [Watch] that reads the table each second, so that neither a delivery nor a claim needs a
// statement for it. A paused source takes no deliveries. A claim leaves out the effects of a paused route and of the
// routes to a paused target ([inbox.EffectsConfig]). Such an effect keeps its attempts, its place in its stream and its
// body. Attempts under way finish.
package pause
