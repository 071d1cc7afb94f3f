package migrations

const (
	// Version is the version of Oncegate's own tables that this binary needs. It is also the
	// version of the program with regard to the schema.
	Version = 2

	// RiverVersion is the version of River's tables that this binary needs. It is pinned because a
	// new River may add indexes that migration 2 drops, and because the gate writes river_job with
	// its own SQL.
	RiverVersion = 8

	// riverOldest is the oldest RiverVersion of a program that may run on River's tables at
	// RiverVersion. If you raise RiverVersion, keep riverOldest only if the test suite of the
	// previous program passes on the new tables.
	riverOldest = 8

	// versionTable is golang-migrate's table of versions. Stored: never change.
	versionTable = "oncegate_migration"
)
