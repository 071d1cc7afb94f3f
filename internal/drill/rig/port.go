package rig

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

const (
	firstPort = 12000
	lastPort  = 20999 // devpg takes those above

	portTries = 200
)

var errNoPort = errors.New("choosing a port: none of " + strconv.Itoa(portTries) + " tried was free")

// Listen listens on a port of 127.0.0.1 below 32768 that is free. A process that lost its connection can then not connect
// to itself by chance, as it could if the port were one of those that clients get.
func Listen() (net.Listener, error) {
	for range portTries {
		address := drawAddress()
		reserved, err := reserve(address)
		if err != nil {
			continue
		}
		l, err := net.Listen("tcp", address) //nolint:noctx // binds at once or fails
		_ = reserved.Close()                 // the listener itself keeps others away
		if err == nil {
			return l, nil
		}
	}
	return nil, errNoPort
}

// FreeAddress returns an address of 127.0.0.1 whose port is free and below 32768, for a process that is going to listen
// there. No other caller gets the address until this process ends, not even in another process, because campaigns start
// hundreds of nodes at the same time, and a node connects to its database between choosing a port and listening on it.
func FreeAddress() (string, error) {
	for range portTries {
		address := drawAddress()
		reserved, err := reserve(address)
		if err != nil {
			continue
		}
		l, err := net.Listen("tcp", address) //nolint:noctx // binds and closes at once
		if err != nil {
			_ = reserved.Close()
			continue
		}
		reservations.keep(reserved)
		return address, l.Close()
	}
	return "", errNoPort
}

func drawAddress() string {
	return "127.0.0.1:" + strconv.Itoa(firstPort+rand.IntN(lastPort-firstPort+1)) //nolint:gosec // a port is no secret
}

// reservations stay open until the process ends. They are package-wide because a port belongs to the machine.
var reservations openUntilTheEnd

// openUntilTheEnd keeps closers that are never closed from being collected, which would close them.
type openUntilTheEnd struct {
	mu   sync.Mutex
	open []io.Closer
}

func (o *openUntilTheEnd) keep(c io.Closer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.open = append(o.open, c)
}

// reserve keeps a port from everybody who draws one. It is the UDP port of the same number, which no node uses: only one
// process can have it, and it is free again when that process ends, however it ends.
func reserve(address string) (io.Closer, error) {
	return net.ListenPacket("udp", address) //nolint:noctx // binds at once or fails
}
