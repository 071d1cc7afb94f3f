package egress_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncegate/oncegate/internal/egress"
	"github.com/oncegate/oncegate/internal/egress/egresstest"
)

func TestAddresses(t *testing.T) {
	t.Parallel()
	open := egress.New(egress.Config{})
	allowing := egress.New(egress.Config{Allow: []netip.Prefix{
		netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("127.0.0.1/32"), netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0"),
	}})
	for address, want := range map[string]struct{ open, allowing bool }{
		"93.184.216.34": {true, true}, "2606:2800:220:1::1": {true, true},
		"10.1.2.3": {false, true}, "127.0.0.1": {false, true}, "192.168.0.1": {false, true}, "172.16.0.1": {false, true}, "100.64.0.1": {false, true},
		"fd12::1": {false, true}, "::1": {false, true}, "::ffff:10.1.2.3": {false, true}, "192.0.2.1": {false, true}, "2001:db8::1": {false, true},
		"64:ff9b::a01:203": {false, true}, "2002:a01:203::1": {false, true}, "64:ff9b::5db8:d822": {false, true}, "2001:0:1::f5fe:fdfc": {false, true},
		"169.254.169.254": {false, false}, "::ffff:169.254.169.254": {false, false}, "64:ff9b::a9fe:a9fe": {false, false}, "64:ff9b:1::a9fe:a9fe": {false, false},
		"2002:a9fe:a9fe::1": {false, false}, "::ffff:0:a9fe:a9fe": {false, false}, "::ffff:0:5db8:d822": {false, true}, "::a9fe:a9fe": {false, false}, "2001:0:1::5601:5601": {false, false}, "fe80::1%eth0": {false, false}, "fd00:ec2::254": {false, false},
		"100.100.100.200": {false, false}, "168.63.129.16": {false, false}, "0.0.0.0": {false, false}, "0.1.2.3": {false, false}, "255.255.255.255": {false, false},
		"240.0.0.0": {false, false}, "239.255.255.255": {false, false}, "223.255.255.255": {true, true}, "1.0.0.0": {true, true}, "0.255.255.255": {false, false},
		"224.0.0.1": {false, false}, "ff02::1": {false, false}, "::": {false, false},
	} {
		addr := netip.MustParseAddr(address)
		if got := open.Allows(addr); got != want.open {
			t.Errorf("%s: %t, want %t", address, got, want.open)
		}
		if got := allowing.Allows(addr); got != want.allowing {
			t.Errorf("%s with everything allowed: %t, want %t", address, got, want.allowing)
		}
		if why := egress.Forbidden(addr); (why == "") != want.allowing {
			t.Errorf("%s: forbidden %q, but with everything allowed it may be connected to: %t", address, why, want.allowing)
		}
	}
}

// An IPv4 address inside an IPv6 one is found at its place and in its order: all four of
// its bytes differ here, and with any one of them changed it is an address of the internet.
func TestAddressesInsideOthers(t *testing.T) {
	t.Parallel()
	everything := egress.New(egress.Config{Allow: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}})
	strangers := egress.New(egress.Config{})
	for form, wrap := range map[string]func(a, b, c, d byte) [16]byte{
		"6to4 (RFC 3056)": func(a, b, c, d byte) [16]byte {
			return [16]byte{0x20, 0x02, a, b, c, d, 0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0xf1, 0x23, 0x45}
		},
		"IPv4-compatible (RFC 4291)": func(a, b, c, d byte) [16]byte { return [16]byte{12: a, 13: b, 14: c, 15: d} },
		"translated (RFC 2765)":      func(a, b, c, d byte) [16]byte { return [16]byte{8: 0xff, 9: 0xff, 12: a, 13: b, 14: c, 15: d} },
		"NAT64 (RFC 6052)": func(a, b, c, d byte) [16]byte {
			return [16]byte{0x00, 0x64, 0xff, 0x9b, 12: a, 13: b, 14: c, 15: d}
		},
		"local NAT64 (RFC 8215)": func(a, b, c, d byte) [16]byte {
			return [16]byte{0x00, 0x64, 0xff, 0x9b, 0x00, 0x01, 0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, a, b, c, d}
		},
		"Teredo (RFC 4380)": func(a, b, c, d byte) [16]byte {
			return [16]byte{0x20, 0x01, 0x00, 0x00, 0x12, 0x34, 0x56, 0x78, 0x80, 0x00, 0x63, 0xbf, ^a, ^b, ^c, ^d}
		},
	} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			metadata := netip.AddrFrom16(wrap(168, 63, 129, 16)) // Azure's
			if everything.Allows(metadata) || egress.Forbidden(metadata) != "a metadata service" {
				t.Errorf("%s leads to a metadata service, and is %q", metadata, egress.Forbidden(metadata))
			}
			for _, other := range [][4]byte{{167, 63, 129, 16}, {168, 62, 129, 16}, {168, 63, 128, 16}, {168, 63, 129, 17}, {16, 129, 63, 168}, {63, 168, 129, 16}} {
				addr := netip.AddrFrom16(wrap(other[0], other[1], other[2], other[3]))
				if !everything.Allows(addr) || egress.Forbidden(addr) != "" {
					t.Errorf("%s leads to %v, which is no metadata service, and is %q", addr, other, egress.Forbidden(addr))
				}
			}
			// None is reached by itself, and the one inside opens it as it would open itself.
			allowing := egress.New(egress.Config{Allow: []netip.Prefix{netip.MustParsePrefix("172.31.254.3/32")}})
			inside, beside := netip.AddrFrom16(wrap(172, 31, 254, 3)), netip.AddrFrom16(wrap(172, 31, 254, 2))
			if strangers.Allows(inside) || strangers.Allows(beside) || !allowing.Allows(inside) || allowing.Allows(beside) {
				t.Errorf("%s: %t by itself and %t where it is allowed, its neighbour %t and %t", inside, strangers.Allows(inside), allowing.Allows(inside), strangers.Allows(beside), allowing.Allows(beside))
			}
		})
	}
	// What looks like an IPv4-compatible address with nothing in it is the loopback's neighbour.
	for address, why := range map[string]string{"::0.0.1.0": "not the address of a host", "::0.1.0.0": "not the address of a host", "::224.0.0.1": "a multicast address"} {
		if got := egress.Forbidden(netip.MustParseAddr(address)); got != why {
			t.Errorf("%s is %q, want %q", address, got, why)
		}
	}
	for _, address := range []string{
		"169.254.169.254", "100.100.100.200", "192.0.0.192", "168.63.129.16", "fd00:ec2::254", "fd20:ce::254",
		"::ffff:169.254.169.254", "::ffff:100.100.100.200", "::ffff:192.0.0.192", "fd20:ce::254%eth0",
	} {
		if got := egress.Forbidden(netip.MustParseAddr(address)); got != "a metadata service" {
			t.Errorf("%s is %q", address, got)
		}
	}
	for _, address := range []string{"169.254.169.253", "169.254.168.254", "fe80::1", "fe80::1%eth0", "64:ff9b::169.254.1.1"} {
		if got := egress.Forbidden(netip.MustParseAddr(address)); got != "a link-local address" {
			t.Errorf("%s is %q", address, got)
		}
	}
	for _, address := range []string{"::2", "::ff", "::1.0.0.0", "192.0.0.193", "168.63.129.17", "100.100.100.201", "fd00:ec2::253", "fd20:ce::253"} {
		if got := egress.Forbidden(netip.MustParseAddr(address)); got != "" {
			t.Errorf("%s is %q", address, got)
		}
	}
}

// listen is what must never be reached.
func listen(t *testing.T) (port string, reached *atomic.Int64) {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	reached = new(atomic.Int64)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			reached.Add(1)
			_ = conn.Close()
		}
	}()
	_, port, _ = net.SplitHostPort(listener.Addr().String())
	return port, reached
}

type dial func(ctx context.Context, network, address string) (net.Conn, error)

// A name that is public when it is looked at and private when it is dialled must
// not be connected to. The obvious check, by name beforehand, lets it through.
func TestRebinding(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reaches bool
		dial    func(*net.Resolver) dial
	}{
		"ours": {false, func(r *net.Resolver) dial {
			return egress.New(egress.Config{Resolver: r, Timeout: time.Second}).DialContext
		}},
		"a check by name beforehand": {true, func(r *net.Resolver) dial {
			return func(ctx context.Context, network, address string) (net.Conn, error) {
				host, _, _ := net.SplitHostPort(address)
				addrs, err := r.LookupNetIP(ctx, "ip4", host)
				if err != nil {
					return nil, err
				}
				for _, a := range addrs {
					if !egress.New(egress.Config{}).Allows(a) {
						return nil, egress.ErrRefused
					}
				}
				return (&net.Dialer{Resolver: r, Timeout: time.Second}).DialContext(ctx, network, address)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			port, reached := listen(t)
			names := egresstest.NewNameServer(t, "93.184.216.34", "127.0.0.1")
			resolver := names.Resolver()
			d := c.dial(resolver)
			if name == "ours" {
				// The first answer is used up as a check of ours would do it.
				if _, err := resolver.LookupNetIP(t.Context(), "ip4", "rebind.example."); err != nil {
					t.Fatal(err)
				}
			}
			conn, err := d(t.Context(), "tcp", net.JoinHostPort("rebind.example.", port))
			if conn != nil {
				_ = conn.Close()
			}
			if got := err == nil; got != c.reaches {
				t.Errorf("connected: %t (%v), want %t", got, err, c.reaches)
			}
			if !c.reaches && (!errors.Is(err, egress.ErrRefused) || reached.Load() > 0) {
				t.Errorf("%v, reached %d times", err, reached.Load())
			}
			if names.Asked() < 2 {
				t.Errorf("the name server was asked %d times: nothing was proved", names.Asked())
			}
		})
	}
}

// A name is let through to a private address that is allowed, and to no other.
func TestAllowlist(t *testing.T) {
	t.Parallel()
	port, _ := listen(t)
	resolver := egresstest.NewNameServer(t, "127.0.0.1", "169.254.169.254").Resolver()
	g := egress.New(egress.Config{Resolver: resolver, Timeout: time.Second, Allow: egress.Named("127.0.0.1")})
	conn, err := g.DialContext(t.Context(), "tcp", net.JoinHostPort("inside.example.", port))
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	if _, err := g.DialContext(t.Context(), "tcp", net.JoinHostPort("inside.example.", "80")); !errors.Is(err, egress.ErrRefused) {
		t.Errorf("%v", err)
	}
	if _, err := g.DialContext(t.Context(), "unix", "/run/socket"); !errors.Is(err, egress.ErrRefused) {
		t.Errorf("a socket: %v", err)
	}
	if got := len(egress.Named("localhost")) + len(egress.Named("billing.example")); got != 2 {
		t.Errorf("%d networks", got)
	}
}

// The time for a connection begins with its name: a name server that does not answer is
// waited for no longer than that.
func TestTimeoutCoversTheName(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	defer close(release)
	guard := egress.New(egress.Config{Timeout: 50 * time.Millisecond, Resolver: &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		<-release
		return nil, errors.New("no name server")
	}}})
	ended := make(chan error, 1)
	go func() {
		_, err := guard.DialContext(context.WithoutCancel(t.Context()), "tcp", "target.example.:80")
		ended <- err
	}()
	select {
	case err := <-ended:
		if timeout, ok := errors.AsType[net.Error](err); !ok || !timeout.Timeout() {
			t.Errorf("%v", err)
		}
	case <-time.After(9 * time.Second): // without the setting it is ten
		t.Error("the guard waits longer than it was told to")
	}
}
