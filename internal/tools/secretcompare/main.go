// Secretcompare refuses comparisons of secrets that end at the first difference: how long
// they take tells whoever guesses how much was right. It is a tool of `go vet`:
//
//	go vet -vettool=.oncegate/bin/secretcompare ./...
//
// A secret is what a field or type of the list in secrets.go holds, a parameter named
// secret or password, and what a MAC gives; and whatever a function makes of one of these.
// What is refused is in compare.go. Lengths, nil and constants may be compared. A comparison
// that no stranger can time is excused by a comment on its line, which says why:
//
//	//secretcompare:ok both are the operator's own
package main

import "golang.org/x/tools/go/analysis/unitchecker" // the protocol between `go vet` and its tools

func main() { unitchecker.Main(analyzer) }
