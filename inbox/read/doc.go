// Package read answers what people ask of the inbox: lists of events, effects, streams, dead letters, conflicts, refused
// deliveries and the audit ([Lister]), one page at a time ([Page]), the things that a reference names ([Lister.Event],
// [Lister.Stream]), and counts. Lists of other packages, such as suppressions, use its pages and cursors.
//
// It changes nothing, and it does not know what people decide about what they see.
package read
