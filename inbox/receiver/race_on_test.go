//go:build race

package receiver_test

const raced = true
