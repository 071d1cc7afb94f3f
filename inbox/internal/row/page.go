package row

const (
	defaultPage = 50

	// MaxPage is the most rows of one page of a list.
	MaxPage = 1000
)

// PageSize is the number of rows of a page for the limit that a caller asked for: 50 for none, and [MaxPage] at most.
func PageSize(limit int) int {
	if limit <= 0 {
		return defaultPage
	}
	return min(limit, MaxPage)
}
