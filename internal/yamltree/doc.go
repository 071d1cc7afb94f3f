// Package yamltree is the only reader of YAML written by operators and contributors: the
// configuration, the providers in it, and the files of the catalog.
//
// [Parse] turns a document into a tree of [Node] values. Every node knows its path, such as
// sources.shop.routes.ledger.target, and its line and column. The caller asks each node for the
// form that it expects: [Node.Fields] for a mapping with known keys, [Node.Members] for a mapping
// with free keys, [Node.Items] for a list, and [Node.Parse], [Read] or [Text] for a single value. A value of another form is added to the [Report]
// as a problem and reading continues, so that one run reports every problem. [Node.Sound] reports
// whether a node is free of problems; a caller checks it before reporting a problem that may only
// be a consequence of an earlier one.
//
// The grammar is smaller than YAML's, to keep files unambiguous:
//
//   - A document is one mapping. An empty document is an empty mapping.
//   - Keys are single values, and each occurs once in its mapping.
//   - The text of a single value is used without any conversion, with or without quotes: true,
//     "true" and 'true' are the same.
//   - A key without a value, or with null, is an empty mapping or list. It is not a single value.
//   - A list with one element may be written as the element alone.
//   - Anchors, aliases, tags and merge keys are errors.
//
// The package does not use the decoder of a YAML library, because such a decoder stops at its first
// problem and does not keep the positions of the values.
package yamltree
