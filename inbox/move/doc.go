// Package move moves a source from one database to another while the servers run.
//
// What moves is the gate: the keys of all events, so that the other database recognises a delivery that the first one has recorded, and the
// positions of ordered sequences and the keys of effects, so that the other database continues where the first one ended. The recorded
// events stay in the first database, which completes their effects and keeps them until prune removes them.
//
// [Move.Run] goes through these steps. Each is committed together with its row of source_move, and a call that was interrupted at any
// moment is continued by the next one.
//
//  1. copying: it copies the keys in the order of event ids, while the first database receives. A trigger writes down what arrives.
//  2. closed: a trigger in the first database refuses new events of the source, whichever process brings them. Senders are answered 503
//     and come again. Run copies what arrived during the first step.
//  3. open: the other database receives. Routes that are ordered, or that have keys, wait there until the first database has completed
//     its effects. Sequences that wait for a missing event go over with their effects, because that event may arrive in the other database.
//  4. settled: Run copies the positions of the sequences and the keys of effects, and the routes of the other database begin to work. A
//     trigger in the first database refuses to carry out effects of these routes again.
//
// The fences are triggers and not a check in the program, because a process that does not know of the move must be refused too. An
// installation that never moves a source has no such trigger.
package move
