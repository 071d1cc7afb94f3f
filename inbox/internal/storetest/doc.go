// Package storetest is for the tests of the inbox's own packages: a gate that a test starts and stops at will ([Bench]),
// an outbox with a relay ([Outbox]), and events of the past that can be pruned ([Past]). What programs outside use to test
// a gate of theirs is in inboxtest.
package storetest
