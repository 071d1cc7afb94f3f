// Package place names where sealed content is stored. [seal] authenticates content together with its place, so that a
// sealed value that was copied into another row or column does not open. The package also seals and opens what consists
// of several values: the body and headers of a refusal, of a conflict, the label of a stream.
//
// The names of tables and columns in a place are stored with the content: never change them.
package place
