package gate

import (
	"github.com/jackc/pgx/v5/pgxpool"
)

// Statements of the gate, for the tests of their plans.
var (
	InsertEvents      = insertEvents.statement
	InsertKeyed       = insertKeyed.statement
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

// FewRows is the number of rows up to which statements have their form for few rows.
const FewRows = fewRows

// AcquireFrom is how the gate gets its connections.
func AcquireFrom(pool *pgxpool.Pool) Acquire { return acquireFrom(pool) }

// Few and Many are the forms of a statement for few rows and for many.
func (s statement) Few() string  { return s.few }
func (s statement) Many() string { return s.many }
