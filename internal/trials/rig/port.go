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

// Listen listens on a port of 127.0.0.1 below 32768 that is free. A process that lost its connection can then not connect
// to itself by chance, as it could if the port were one of those that clients get.
func Listen() (net.Listener, error) {
	for range 200 {
		address := "127.0.0.1:" + strconv.Itoa(firstPort+rand.IntN(lastPort-firstPort+1)) //nolint:gosec // a port is no secret
		if l, err := net.Listen("tcp", address); err == nil {                             //nolint:noctx // binds at once or fails
			return l, nil
		}
	}
	return nil, errors.New("choosing a port: none of 200 tried was free")
}

// FreeAddress returns an address of 127.0.0.1 whose port is free now and below
// 32768. Whoever binds it may find it taken, but only by somebody else who
// draws from the same range.
func FreeAddress() (string, error) {
	l, err := Listen()
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
