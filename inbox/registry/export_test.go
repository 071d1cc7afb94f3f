package registry

import (
	"github.com/oncegate/oncegate/inbox/internal/row"
)

// StrandedStatements are what a start and its check count by, in the session that
// [CheckSession] makes.
var StrandedStatements = map[string][]any{
	readStrandedRest: {[]int32{1, 2}, row.MaxCounted + 1}, readStrandedDue: {[]int32{1, 2}, maxDueExamined}, readKeyHolders: {row.MaxCounted + 1},
	readRecipes: {[]int32{1, 2}, row.MaxCounted + 1},
}

// CheckSession is what is set before them.
const CheckSession = checkSession
