// Package jsonspan finds pieces of JSON documents and says where they are, without
// building a tree.
//
//   - [PathSet.Walk] gives the [Span] of each path of a set, in one pass, and [Elements] those of
//     an array's elements. The whole document is checked on the way.
//   - [Canonical] writes a document in its one form, for comparison and digests; a [Canonicalizer]
//     does so in the same pass that finds the paths.
//   - [ParseTree] and [Compare] tell in which paths two documents differ, and [Changes] with what.
//
// It promises, and its fuzz tests hold it to:
//
//   - It takes what encoding/json takes, except documents nested deeper than [MaxDepth] and
//     those with a key twice where that key is read: two readers of one delivery must
//     not see two meanings.
//   - A span is exactly the bytes of the value in the document: what is recorded, forwarded
//     and signed is what came.
//   - Numbers stay as they are written: an id beyond 2^53 is no float.
//   - No two different texts become one: lone surrogates and bytes that are not UTF-8 are
//     errors, and not replacement characters.
//   - A walk takes time in proportion to the document, and allocates nothing but its spans.
//
// encoding/json does otherwise: it takes the last of two keys,
// matches keys in any case, replaces what is no text, does not tell where a value was, and builds what it
// reads. Every delivery passes here before it is known to be anybody's, so that its cost is
// an attacker's lever.
package jsonspan
