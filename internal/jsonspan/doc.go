// Package jsonspan finds parts of JSON documents and returns their positions, without building a
// tree.
//
//   - [PathSet.Walk] returns the [Span] of each path of a set, in one pass, and [Elements] the
//     spans of an array's elements. Walk checks the whole document.
//   - [Canonical] writes a document in its canonical form, for comparison and digests. A
//     [Canonicalizer] does so in the same pass that finds the paths.
//   - [ParseTree] and [Compare] find the paths at which two documents differ; [Changes] also
//     returns both values.
//
// The package promises the following, and its fuzz tests check it:
//
//   - It accepts the documents that encoding/json accepts, except documents nested deeper than
//     [MaxDepth] and documents that repeat a key on a path that is read, because two readers of one
//     delivery must not see different meanings.
//   - A span covers exactly the bytes of the value in the document, so that Oncegate records,
//     forwards and signs the bytes that arrived.
//   - Numbers keep their spelling, because an id beyond 2^53 does not fit into a float.
//   - Two different strings never become equal: lone surrogates and bytes that are not UTF-8 are
//     errors instead of becoming replacement characters.
//   - A walk takes time proportional to the length of the document, and allocates only its spans.
//
// encoding/json behaves differently: it takes the last of two equal keys, matches keys without
// regard to case, replaces invalid text, does not return the positions of values, and builds every
// value it reads. Oncegate reads every delivery with this package before it has verified the
// delivery, so an attacker could exploit an expensive parser.
package jsonspan
