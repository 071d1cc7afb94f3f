// Secretcompare reports comparisons of secrets that stop at the first difference, because their
// duration shows an attacker how much of a guess was right. It is a tool for `go vet`:
//
//	go vet -vettool=.oncegate/bin/secretcompare ./...
//
// A secret is a field or type in the lists of secrets.go, a parameter named secret or password, or
// the result of a MAC, and every value that a function derives from one of these. The list of
// reported functions is in compare.go. Lengths, nil and constants may be compared. If an attacker
// cannot time a comparison, permit it with a comment on its line that states the reason:
//
//	//secretcompare:ok both are the operator's own
package main

import "golang.org/x/tools/go/analysis/unitchecker" // the protocol between `go vet` and its tools

func main() { unitchecker.Main(analyzer) }
