package row

// DayOf returns the SQL of the day, in UTC, of a UUIDv7.
func DayOf(id string) string {
	return `(DATE '1970-01-01' + (('x' || left(replace((` + id + `)::text, '-', ''), 12))::bit(48)::bigint / 86400000)::int)`
}

// Archived is the condition that the archive has the body of event v. An object that spans the body's id may lack the body, so the
// answer may be yes for a body that is lost, but never no for one that the archive has.
var Archived = `(v.class <> '` + ErasedClass + `' AND EXISTS (
    SELECT FROM archive_object a
    WHERE a.kind = 'body' AND a.day = ` + DayOf("v.body_id") + ` AND a.first_key <= v.body_id AND a.last_key >= v.body_id AND a.state = 'stored'))`
