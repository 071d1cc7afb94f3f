// Package archive keeps bodies beyond their retention in objects outside the database: in a bucket or a directory ([Store]).
//
// Prune writes bodies and payloads of conflicts with [Archive.Write] before it removes their rows. [Archive.Event] reads the body
// of one event back, [Archive.Erase] removes events from the objects, and [Archive.Reseal] seals their lines again.
//
// # The format
//
// An object is a series of zstd frames (RFC 8878). Each frame contains whole lines, and each line is the JSON of a [Line]. The
// lines are sorted by their key. The last frame is a skippable frame with the [Index] of the others, which zstd ignores, so that
//
//	zstd -dc OBJECT | jq .
//
// prints all lines, and one body is read with two ranges of the object. A sealed body stays sealed. The documentation
// describes the format, so never change it without a new name in [Format].
//
// # No body is lost, and no erased one is kept
//
// The row of an object is committed before the object is written, and says "writing". The row is then locked, the bodies are
// read, the object is written and verified, and the row says "stored" in the transaction that removes the bodies or notes that
// their day may be dropped. A crash in between leaves a row that says "writing"; the next pass of prune deletes its object, and
// writes the bodies again under the same name.
//
// An erasure commits in the database first, with a row in archive_erasure. It then locks every object that may contain the event.
// A writer whose row is not there yet reads the bodies after the erasure. A writer whose row is there is waited for, and its
// object is then written again without the event, under the next generation's name. The row in archive_erasure is deleted only
// after the object of the former generation is deleted, and an erasure that was interrupted is completed by the next pass of
// prune.
package archive
