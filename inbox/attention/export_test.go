package attention

import (
	"github.com/oncegate/oncegate/inbox/read"
)

// Statements are what a reader sends, by kind.
func Statements(tenant bool) map[Kind]string {
	out := map[Kind]string{Failing: readFailing, Plans: readPlans, NotReloaded: readNotReloaded, Standstills: readStandstills}
	for i := range statements {
		out[statements[i].kind] = statements[i].sql(tenant, read.ListBudget)
	}
	return out
}

// ByIndex is how they are planned.
const ByIndex = byIndex
