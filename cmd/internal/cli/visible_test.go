package cli_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// All JSON that a command or a log writes passes through the one function that escapes control
// characters.
func TestAllJSONIsMadeVisible(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	encoders := regexp.MustCompile(`(json\.NewEncoder|slog\.NewJSONHandler)\((.*)`)
	found := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range encoders.FindAllStringSubmatch(string(content), -1) {
			found++
			if !strings.HasPrefix(match[2], "visible.NewWriter(") {
				t.Errorf("%s: %s does not write through the package visible", file, match[0])
			}
		}
	}
	if found < 3 {
		t.Errorf("found %d encoders only", found)
	}
}
