package receiver

import (
	"crypto/rand"
	"encoding/hex"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync/atomic"

	"github.com/labstack/echo/v4"
)

const headerRequestID = "X-Request-Id"

// newExtractor returns the function that finds the sender of a request. Echo's own
// default believes any X-Forwarded-For, so it is never used.
func newExtractor(trusted []netip.Prefix) echo.IPExtractor {
	if len(trusted) == 0 {
		return echo.ExtractIPDirect()
	}
	options := []echo.TrustOption{echo.TrustLoopback(false), echo.TrustLinkLocal(false), echo.TrustPrivateNet(false)}
	for _, prefix := range trusted {
		masked := prefix.Masked()
		options = append(options, echo.TrustIPRange(&net.IPNet{
			IP:   masked.Addr().AsSlice(),
			Mask: net.CIDRMask(masked.Bits(), masked.Addr().BitLen()),
		}))
	}
	return echo.ExtractIPFromXFFHeader(options...)
}

// fromProxy reports whether the direct peer is a trusted proxy.
func (r *Receiver) fromProxy(req *http.Request) bool {
	if len(r.cfg.TrustedProxies) == 0 {
		return false
	}
	peer, err := netip.ParseAddrPort(req.RemoteAddr)
	if err != nil {
		return false
	}
	addr := peer.Addr().Unmap()
	for _, prefix := range r.cfg.TrustedProxies {
		if prefix.Contains(addr) {
			return true
		}
	}
	return false
}

// requestIDs makes ids that are unique over processes and cheap: random bytes
// once, then a count.
type requestIDs struct {
	prefix string
	next   *atomic.Uint64
}

func newRequestIDs() requestIDs {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails since Go 1.24
	return requestIDs{prefix: hex.EncodeToString(b[:]) + "-", next: new(atomic.Uint64)}
}

func (r *Receiver) requestID(req *http.Request) string {
	if given := req.Header[headerRequestID]; len(given) == 1 && validRequestID(given[0]) && r.fromProxy(req) {
		return given[0]
	}
	return r.requests.prefix + strconv.FormatUint(r.requests.next.Add(1), 36)
}

// validRequestID reports whether an id is safe in a log line and a header.
func validRequestID(id string) bool {
	if len(id) == 0 || len(id) > 128 {
		return false
	}
	for i := range len(id) {
		switch c := id[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.', c == '/', c == '+', c == '=', c == ':':
		default:
			return false
		}
	}
	return true
}

// address is the URL the sender used, as far as it can be known.
func (r *Receiver) address(req *http.Request, external string) string {
	if external != "" {
		if req.URL.RawQuery == "" {
			return external
		}
		return external + "?" + req.URL.RawQuery
	}
	scheme := "http://"
	if req.TLS != nil {
		scheme = "https://"
	} else if proto := req.Header["X-Forwarded-Proto"]; len(proto) == 1 && proto[0] == "https" && r.fromProxy(req) {
		scheme = "https://"
	}
	return scheme + req.Host + req.URL.RequestURI()
}

// The headers by which a sender finds out whether the receiver sees the address that it has sent to. A scheme that signs the
// address refuses deliveries if it is another one.
const (
	// HeaderExpectAddress has the address that the sender of a GET uses. `oncegate doctor` sets it.
	HeaderExpectAddress = "Oncegate-Expect-Address"
	// HeaderAddressExpected says in the answer whether the receiver sees the expected address: `true` or `false`. The answer does
	// not contain the address that it sees, because it may be an internal one.
	HeaderAddressExpected = "Oncegate-Address-Expected"
)
