package console

import (
	"time"

	"github.com/oncegate/oncegate/internal/session"
)

// lateAfter is the age from which a page says at its top that its data is old.
const lateAfter = 10 * time.Second

// dataAge is what a page shows about the age of its data.
type dataAge struct {
	AsOf time.Time
	Age  string
	Late bool
}

// dataAgeOf returns nil if the page shows what the primary has.
func dataAgeOf(f session.Freshness, now time.Time) *dataAge {
	if !f.Standby || f.AsOf.IsZero() {
		return nil
	}
	age := f.Age(now)
	return &dataAge{AsOf: f.AsOf, Age: roughly(age), Late: age >= lateAfter}
}

func (c *Console) freshness() session.Freshness {
	if c.cfg.Freshness == nil {
		return session.Freshness{}
	}
	return c.cfg.Freshness()
}
