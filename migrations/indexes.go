package migrations

import (
	"io/fs"
	"regexp"
	"slices"
)

var indexStatementName = regexp.MustCompile(`(?m)^(CREATE (?:UNIQUE )?|DROP )INDEX (?:CONCURRENTLY )?(?:IF (?:NOT )?EXISTS )?(\w+)`)

// Indexes returns the names of the indexes that the migrations of this binary create, in the order of their creation. The indexes of
// primary keys and of unique constraints are not among them, and neither are River's.
func Indexes() ([]string, error) {
	paths, err := fs.Glob(files, "sql/*.up.sql") // sorted by version
	if err != nil {
		return nil, err
	}
	var names []string
	for _, path := range paths {
		content, err := files.ReadFile(path)
		if err != nil {
			return nil, err
		}
		for _, found := range indexStatementName.FindAllStringSubmatch(string(content), -1) {
			if found[1] != "DROP " {
				names = append(names, found[2])
			} else if at := slices.Index(names, found[2]); at >= 0 {
				names = slices.Delete(names, at, at+1)
			}
		}
	}
	return names, nil
}
