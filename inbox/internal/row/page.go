package row

const (
	defaultPage = 50
	MaxPage     = 1000
)

func PageSize(limit int) int {
	if limit <= 0 {
		return defaultPage
	}
	return min(limit, MaxPage)
}
