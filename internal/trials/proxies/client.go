package proxies

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// dialer connects from the senders' address, which no receiver trusts.
func dialer() *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(senderAddress)}, Timeout: 10 * time.Second}
}

// newClient returns a sender's client of the proxy. With keep, it uses connections again.
func (c *certificates) newClient(keep bool) *http.Client {
	return &http.Client{
		Timeout: 40 * time.Second,
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
				return dialer().DialContext(ctx, "tcp4", address)
			},
			TLSClientConfig: &tls.Config{RootCAs: c.roots, MinVersion: tls.VersionTLS12}, MaxIdleConnsPerHost: senders, DisableKeepAlives: !keep,
			ExpectContinueTimeout: 5 * time.Second, DisableCompression: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// answer is how a request ended.
type answer struct {
	status int // 0 without an answer

	// receipt is the status in an answer of 2xx: recorded, duplicate or conflict.
	receipt string

	header http.Header
	err    error
}

func (a answer) acknowledged() bool { return a.status/100 == 2 }

// String is the status, or why there was none.
func (a answer) String() string {
	if a.err != nil {
		return a.err.Error()
	}
	return fmt.Sprint(a.status)
}

// request is a request of a sender. length is -1 for a body in chunks.
type request struct {
	method, url string
	header      http.Header
	body        io.Reader
	length      int64
}

// send sends a request once. The transport does not send it again by itself, because the campaign counts.
func send(ctx context.Context, client *http.Client, r request) answer {
	req, err := http.NewRequestWithContext(ctx, r.method, r.url, r.body)
	if err != nil {
		return answer{err: err}
	}
	req.Header, req.ContentLength, req.GetBody = r.header, r.length, nil
	if req.Header == nil {
		req.Header = http.Header{}
	}
	resp, err := client.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return answer{err: err}
	}
	a := answer{status: resp.StatusCode, header: resp.Header}
	if a.acknowledged() {
		var receipt struct{ Status string }
		if json.Unmarshal(content, &receipt) == nil {
			a.receipt = receipt.Status
		}
	}
	return a
}
