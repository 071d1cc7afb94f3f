package conflict

// ReadFirst is the statement that reads the recorded payload, for the test of its plan.
const ReadFirst = readFirst
