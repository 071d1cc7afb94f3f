// Package console serves the pages on which operators see what Oncegate has received and done, and decide what waits
// for them.
//
// The server makes each page from components: facts, tables, payloads, forms. Each file of this package that is named
// after a noun makes the pages of that noun. It reads their content with the operations of package control and the
// access of the user who is logged in. The console has no other way to the database.
//
// The texts of senders and targets are shown only as text. They pass through package visible, so that characters that
// hide or reverse the text around them become visible, and through html/template. The pages permit only their own small
// script, by its hash, and all of them work without it.
package console
