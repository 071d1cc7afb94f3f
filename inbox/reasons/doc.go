// Package reasons is the closed set of reasons why an attempt failed or an effect is at rest. They are stored, and are
// values of a label: never change one. It knows neither storage nor what an effect is.
//
// The reasons of kinds of effects (package effect) are constants without a type, because a kind returns them as strings.
// The inbox uses the type [Reason].
package reasons
