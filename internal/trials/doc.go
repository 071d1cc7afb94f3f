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
//	attack     attacks the public address without a secret
//	soak       looks for what grows under a steady load
//	bench      measures throughput and cost
//	pages      measures how fast lists answer when the tables are large
//
// They share the package lab, and the packages below internal/drill, which the released command `oncegate drill` uses
// too. The package wrong breaks a promise on purpose, to show that a trial notices; servertest serves an inbox in a
// test; npmtest installs the npm packages that tests use. What a trial checks at the end is an invariant of
// internal/drill/invariant, or is defined in the trial.
package trials
