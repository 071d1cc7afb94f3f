// Package invariant defines what must hold after every drill and trial, in spite of all faults. [Check] compares the
// ledgers of the senders and the targets with the tables ([Read]) and returns for each invariant how many things it
// compared and every violation. [All] lists the invariants.
//
// A violation names the event by the id that its sender gave it, and never shows content.
package invariant
