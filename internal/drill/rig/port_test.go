package rig_test

import (
	"net"
	"testing"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

// A node listens some time after its port was chosen. Of 1,000 ports out of 9,000, about fifty would be drawn twice.
func TestFreeAddressIsGivenOnce(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 1000 {
		address, err := rig.FreeAddress()
		if err != nil {
			t.Fatal(err)
		}
		if seen[address] {
			t.Fatalf("%s was given twice", address)
		}
		seen[address] = true
	}
	for range 300 {
		l, err := rig.Listen()
		if err != nil {
			t.Fatal(err)
		}
		if seen[l.Addr().String()] {
			t.Errorf("%s is listened on by somebody whom it was not given to", l.Addr())
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	for address := range seen {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatalf("what it was given to cannot listen: %v", err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		break
	}
}
