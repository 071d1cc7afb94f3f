package rollup

// WithoutMarker makes a recorder whose statement adds a batch also if its number is known.
func WithoutMarker(cfg Config) Config {
	cfg.statement = writeBatchOf("WHERE true")
	return cfg
}

// Statements that are planned in tests.
var (
	ReadSuspected = readSuspected
	WriteBatch    = writeBatch
)

// Queries gives the statements that a filter makes, with their arguments.
func Queries(f Filter) map[string]Query {
	out := map[string]Query{}
	sql, args, _ := sumsQuery(&f)
	out["sums"] = Query{sql, args}
	sql, args, _ = seriesQuery(&f)
	out["series"] = Query{sql, args}
	sql, args = activityQuery(&f)
	out["activity"] = Query{sql, args}
	return out
}

// Query is a statement with its arguments.
type Query struct {
	SQL  string
	Args []any
}
