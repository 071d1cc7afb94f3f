package migrations

const (
	// Version is the version of Oncegate's own tables that this binary needs. It is
	// also the version of the program, as far as the schema is concerned.
	Version = 43

	// RiverVersion is the version of River's tables that this binary needs. It is
	// pinned: a new River may bring indexes that migration 2 drops, and the gate
	// writes river_job by SQL of its own.
	RiverVersion = 8

	// riverOldest is the oldest RiverVersion of a program that may run on River's
	// tables at RiverVersion. Whoever raises RiverVersion leaves it as it is only if the
	// suite of the program before has passed on the new tables.
	riverOldest = 8

	// versionTable is golang-migrate's record. Stored: never change.
	versionTable = "oncegate_migration"

	// stated is the first migration whose file must say which programs may run on it.
	stated = 22
)
