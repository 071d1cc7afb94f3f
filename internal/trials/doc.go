// Package trials has the programs that try to break Oncegate, and those that measure it. None of them is released, and
// no released package imports them.
//
// Each folder is named after the script that runs it, so that whoever has run ./scripts/kills finds internal/trials/kills:
//
//	crash      kills the binary and PostgreSQL while deliveries are recorded
//	kills      kills workers at chosen points of an attempt
//	order      kills workers while streams are delivered out of order
//	operators  lets several operators act at the same time, and restarts what they act on
//	night      lets a target be down for a night, and has a replay mend it
//	mail       mails to servers that misbehave, and counts who got what
//	attack     attacks the public address without a secret
//	soak       looks for what grows under a steady load
//	bench      measures throughput and cost
//	wrong      breaks a promise on purpose, to show that a trial notices
//
// They share the package rig. Each trial defines what it checks at the end, and against which ledger.
package trials
