// Package yamltree is the one reader of the YAML that people write: the
// configuration, the providers in it, and the files of the catalogue.
//
// [Parse] turns a document into a tree of [Node] values. Every node knows its path, such
// as sources.shop.routes.ledger.target, and its line and column. Whoever reads the tree
// asks a node for what they expect: [Node.Fields] for a mapping with known keys,
// [Node.Members] for one with free keys, [Node.Items] for a list, and [Read] or one of
// its kin ([Duration], [Size], [Integer], [Bool], [Word]) for a single value. What does not fit is
// added to the [Report], and the reading goes on, so that everything that is wrong is
// reported at once. [Node.Sound] tells whether a conclusion can be drawn from a node:
// nobody should complain about what follows from an earlier problem.
//
// The grammar is smaller than YAML's, so that a file means what it says:
//
//   - A document is one mapping. An empty document is an empty mapping.
//   - Keys are single values, and each occurs once in its mapping.
//   - A single value is taken as it is written, with or without quotes: true, "true" and 'true' are the same.
//   - A key without a value, or with null, is an empty mapping or list. It is no single value.
//   - A list with one element may be written as the element alone.
//   - Anchors, aliases, tags and merge keys are refused.
//
// A library's decoder is not used because it stops at its first problem and forgets
// where the values were.
package yamltree
