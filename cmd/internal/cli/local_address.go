package cli

import (
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// portAlone matches a port without a host, perhaps with a path.
var portAlone = regexp.MustCompile(`^:?[0-9]+($|[/?])`)

// localAddress parses where a program on this machine takes events: 3000, 3000/path,
// localhost:3000/path or a complete address.
func localAddress(flag, text string) (string, error) {
	address := text
	if portAlone.MatchString(address) {
		address = "localhost:" + strings.TrimPrefix(address, ":")
	}
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	parsed, err := url.Parse(address)
	if err != nil || parsed.Hostname() == "" || parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.Fragment != "" || strings.ContainsAny(text, "{}\"'\\ ") {
		return "", usagef("%s %q is not an address such as 3000, localhost:3000 or http://localhost:3000/webhooks", flag, cleanURL(text))
	}
	if port := parsed.Port(); port != "" {
		if number, err := strconv.ParseUint(port, 10, 16); err != nil || number == 0 {
			return "", usagef("%s %q: the port must be from 1 to 65535", flag, cleanURL(text))
		}
	}
	if parsed.Path == "" {
		parsed.Path = "/"
	}
	return parsed.String(), nil
}
