package gate

import (
	"github.com/jackc/pgx/v5/pgxpool"
)

// Statements of the gate, for the tests of their plans.
var (
	InsertEvents      = insertEvents.sql
	InsertKeyed       = insertKeyed.sql
	ReadFormer        = readFormerEvents
	ReadEvents        = readEvents
	ReadTransmissions = readTransmissions
	BumpDeliveries    = countDeliveries
	InsertStreams     = insertStreams
	InsertBodies      = insertBodies
	InsertEffects     = insertEffectsOf("nextval('river_job_id_seq')")
	InsertOrdered     = insertOrderedOf("nextval('river_job_id_seq')")
	InsertLabels      = insertLabels
)

// AcquireFrom is how the gate gets its connections.
func AcquireFrom(pool *pgxpool.Pool) Acquire { return acquireFrom(pool) }
