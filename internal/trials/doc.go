// Package trials has the programs that try to break Oncegate, and those that measure it. None of them is released, and
// no released package imports them.
//
// The folder of a trial has the name of the script that runs it, so ./scripts/kills runs internal/trials/kills:
//
//	crash      kills the binary and PostgreSQL while deliveries are recorded
//	kills      kills workers at chosen points of an attempt
//	failover   fails a PostgreSQL with a standby over, under load
//	order      kills workers while streams are delivered out of order
//	operators  lets several operators act at the same time, and restarts what they act on
//	night      lets a target be down for a night, and has a replay mend it
//	mail       mails to servers that misbehave, and counts who got what
//	calls      repeats calls while nodes are killed, and counts how often each call was carried out
//	lists      mails long lists while the process is killed, and counts what each recipient got
//	proxies    delivers through nginx, Caddy and HAProxy while they and the receivers are restarted
//	attack     attacks the public address without a secret
//	soak       looks for what grows under a steady load
//	bench      measures throughput and cost
//	pages      measures how fast lists answer when the tables are large
//
// They share the package lab, and the packages below internal/drill, which the released command `oncegate drill` uses
// too: rig has the stage that a run plays on, sender delivers the events of a ledger, ledger records what was sent and
// received, and invariant says what must hold at the end. What a trial checks in addition is defined in the trial. The
// package wrong breaks a promise on purpose, to show that a trial notices; servertest serves an inbox in a test; npmtest
// installs the npm packages that tests use.
//
// The trials are no scenarios of `oncegate drill`. A drill runs the released binary on the database of an operator. Most
// trials need a binary with fail points, or a PostgreSQL that they kill or whose clock they set.
package trials
