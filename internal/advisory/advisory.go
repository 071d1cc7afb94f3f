// Package advisory holds the numbers of the advisory locks that this program takes in PostgreSQL. They are stored nowhere,
// but shared with every other version that is running: never renumber one.
//
// All but [Migrate] are the first half of a key of two, so that they stay apart from those of golang-migrate and River,
// which are keys of one. What the second half is stands with the number.
package advisory

const (
	// Space is that of locks that are numbered by this file: [Partitions].
	Space int32 = 0x6f_6e_63_65 // "once"

	// Prune is that of the lock of a pass of prune, held for its session; the second half is the schema's hash, so that two
	// installations in one database do not wait for each other.
	Prune int32 = 0x6f_6e_70_72 // "onpr"

	// Relay is that of the lock under which one relay at a time takes a source in order; the second half is the hash of the
	// schema and the source's name.
	Relay int32 = 0x6f_6e_72_6c // "onrl"

	// Replay is that of the lock of a replay that is being carried out, held for its session; the second half is the hash
	// of the replay's id.
	Replay int32 = 0x6f_6e_72_70 // "onrp"
)

// Partitions is the second half, with [Space], of the lock under which partitions are made.
const Partitions int32 = 1

// Migrate is the key of the session lock under which programs before version 22 of the schema migrate, whatever the schema.
// It is shared now: it keeps those programs out, and lets migrations of several schemas run at once.
const Migrate int64 = 0x6f_6e_63_65_00_00_00_02 // "once", 2
