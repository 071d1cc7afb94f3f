// Package night is the night after which people use replay, scripted: three
// providers deliver while the billing target is down (it answers 503, then does
// not answer, then hangs up after it has accepted), and a route is changed
// meanwhile. Then an operator plans a replay, runs it, has the process killed in
// the middle, cancels, and plans and runs the rest, by the commands he would type.
//
// The target writes down every request it gets and what it did of them. [Check]
// compares: no effect happens twice, none is lost, a plan does nothing, and every
// item of a plan ends as the plan said, with the very bytes, key and address.
package night
