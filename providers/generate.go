package providers

//go:generate go test ./internal/reference -run ^TestUpToDate$ -update
