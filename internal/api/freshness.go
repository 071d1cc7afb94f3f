package api

import (
	"net/http"
	"time"

	"github.com/oncegate/oncegate/internal/session"
)

// freshnessHeader says as of when the data of an answer is.
const freshnessHeader = "Oncegate-Data-As-Of"

// writeFreshness says as of when the data of an answer is, if it was read from a standby. It is called before the data is read, so that
// the data is at least as new.
func writeFreshness(header http.Header, f session.Freshness) {
	if f.Standby && !f.AsOf.IsZero() {
		header.Set(freshnessHeader, f.AsOf.UTC().Format(time.RFC3339Nano))
	}
}

// readFreshness reads what [writeFreshness] has written.
func readFreshness(header http.Header) session.Freshness {
	asOf, err := time.Parse(time.RFC3339Nano, header.Get(freshnessHeader))
	return session.Freshness{Standby: err == nil, AsOf: asOf}
}
