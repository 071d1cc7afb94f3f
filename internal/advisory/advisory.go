// Package advisory defines the keys of the advisory locks that Oncegate takes in PostgreSQL. The
// keys are not stored, but other versions that run at the same time use them too: never change one.
//
// Each key is the first half of a two-part key, so that it cannot collide with the
// locks of golang-migrate and River, which have one-part keys. The comment of each key describes
// the second half.
package advisory

const (
	// Space is the first half for locks that this file numbers: [Partitions].
	Space int32 = 0x6f_6e_63_65 // "once"

	// Prune is the first half for the session lock of a prune pass. The second half is the hash of
	// the schema, so that two installations in one database do not block each other.
	Prune int32 = 0x6f_6e_70_72 // "onpr"

	// Relay is the first half for the lock that allows one relay at a time to take a source in
	// order. The second half is the hash of the schema and the source's name.
	Relay int32 = 0x6f_6e_72_6c // "onrl"

	// Reconcile is the first half for the session lock of a run that asks a source's sender about its
	// events. The second half is the hash of the schema and the source's id.
	Reconcile int32 = 0x6f_6e_72_63 // "onrc"

	// Replay is the first half for the session lock of a running replay. The second half is the
	// hash of the replay's id.
	Replay int32 = 0x6f_6e_72_70 // "onrp"

	// Move is the first half for the session lock of the move of a source to another database, in the database that the source
	// leaves. The second half is the hash of the schema and the source's name.
	Move int32 = 0x6f_6e_6d_76 // "onmv"
)

// Partitions is the second half, with [Space], for the lock that is held while partitions are
// created.
const Partitions int32 = 1
