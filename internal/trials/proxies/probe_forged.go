package proxies

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/oncegate/oncegate/internal/drill/rig"
)

const readRemotes = `SELECT coalesce(string_agg(DISTINCT f.remote, ' '), '') FROM refusal f JOIN source s ON s.id = f.source_id WHERE s.name = 'forged'`

// probeForgeries sends headers that only a proxy may write.
func (c *campaign) probeForgeries(ctx context.Context) error {
	body := string(push(300))
	for n, forwarded := range [][]string{{"203.0.113.7"}, {"203.0.113.7, 127.0.0.1"}, {"203.0.113.7", "198.51.100.9"}} {
		header := pushHeader(wrongSecret, fmt.Sprint("forged-", n), []byte(body))
		header["X-Forwarded-For"], header["X-Real-Ip"], header["Forwarded"] = forwarded, []string{"203.0.113.7"}, []string{"for=203.0.113.7"}
		c.note("a forged push with X-Forwarded-For: "+strings.Join(forwarded, " and "), "401", c.post(ctx, "/in/forged", header, body).String())
	}
	remotes := ""
	err := rig.Until(ctx, 10*time.Second, "the refusals to be recorded", func() (bool, error) {
		err := c.DB.QueryRow(ctx, readRemotes).Scan(&remotes)
		return remotes != "", err
	})
	if err != nil {
		return err
	}
	c.note("the recorded address of their sender", senderAddress, remotes)

	// The certificate is one that the source takes from a trusted proxy.
	const genuine = `{"id":"certificate-1"}`
	direct := send(ctx, &http.Client{Timeout: 40 * time.Second}, request{
		method: http.MethodPost, url: "http://" + firstReceiver + ":" + c.public + "/in/certificate", header: c.certificateHeader(), body: strings.NewReader(genuine), length: int64(len(genuine)),
	})
	c.note("the header Client-Cert from a trusted proxy", "200", direct.String())
	c.note("the header Client-Cert from a sender", "401", c.post(ctx, "/in/certificate", c.certificateHeader(), `{"id":"certificate-2"}`).String())
	header := c.certificateHeader()
	header.Set("Connection", "Client-Cert")
	c.note("the header Client-Cert from a sender, named in Connection", "401", c.post(ctx, "/in/certificate", header, `{"id":"certificate-3"}`).String())
	return ctx.Err()
}
