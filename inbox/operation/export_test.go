package operation

// FindAgentSession is the statement of every call under a session, for the test of its plan.
const FindAgentSession = findAgentSession

// CallStatements sum up lists that effects became, and recognise calls that came before, for the test of their plans.
var CallStatements = map[string]string{
	"list states": countListStates, "item failures": readItemFailures, "recent call": readRecentCall, "followed call": readFollowedCall,
}
