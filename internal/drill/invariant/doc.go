// Package invariant defines what must hold after a drill or a trial, whatever happened meanwhile. [Check] compares the
// ledgers of the senders and the targets with the tables ([Read]) and returns for each invariant how many things it
// compared and every violation. [All] lists the invariants.
//
// A violation names the event by the id that its sender gave it, and never shows content.
package invariant
