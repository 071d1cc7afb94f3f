// Package move moves a source from one database to another while the servers run.
//
// A move copies the gate's data: the keys of all events, so that the other database recognises a delivery that the first one has recorded. It
// also copies the positions of ordered sequences and the keys of effects, so that the other database continues where the first one ended.
// The recorded events stay in the first database, which completes their effects and keeps them until prune removes them.
//
// [Move.Run] takes these steps. It commits each step together with its row of source_move, so the next call continues an interrupted one.
//
//  1. copying: Run copies the keys in the order of event ids, while the first database still receives. A trigger records the ids of new events.
//  2. closed: a trigger in the first database refuses new events of the source from every process. Senders get 503 and deliver again. Run
//     copies the keys of the events that arrived during the first step.
//  3. open: the other database receives. Routes that are ordered, or that have keys, wait there until the first database has completed its
//     effects. Run transfers sequences that wait for a missing event, because that event may arrive in the other database.
//  4. settled: Run has copied the positions of the sequences and the keys of effects, and the routes of the other database work. A trigger in
//     the first database refuses further attempts of effects of these routes.
//
// The fences are triggers and not checks in the program, because a process that does not know about the move must be refused too. An
// installation that never moves a source has no such triggers.
package move
