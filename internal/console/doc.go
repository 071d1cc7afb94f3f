// Package console serves the pages on which people see what Oncegate has taken and done, and decide what waits for them.
//
// A page is made on the server of components: facts, tables, payloads, forms. Each file of this package that is named
// after a noun makes the pages of that noun, and asks for what they show by the operations of package control, with the
// access of whoever is logged in. The console has no other way to the database.
//
// What senders and targets said is shown as text and nothing else. It passes through package visible, so that characters
// which hide or reverse the text around them are seen, and through html/template. The pages permit no script but their own
// small one, by its hash, and all of them work without it.
package console
