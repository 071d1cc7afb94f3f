package rig

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

const (
	firstPort = 12000
	lastPort  = 20999 // devpg takes those above
)

// FreeAddress returns an address of 127.0.0.1 whose port is free now and below
// 32768. Whoever binds it may find it taken, but only by somebody else who
// draws from the same range.
func FreeAddress() (string, error) {
	for range 200 {
		address := "127.0.0.1:" + strconv.Itoa(firstPort+rand.IntN(lastPort-firstPort+1)) //nolint:gosec // a port is no secret
		l, err := net.Listen("tcp", address)                                              //nolint:noctx // binds and closes at once
		if err != nil {
			continue
		}
		if err := l.Close(); err == nil {
			return address, nil
		}
	}
	return "", errors.New("choosing a port: none of 200 tried was free")
}
