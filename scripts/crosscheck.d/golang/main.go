// Command golang asks a Go library whether it accepts a request. The first argument names the
// library, and standard input contains the request and the secret as JSON. It exits with 0 if the
// library accepts the request and with 1 if it does not.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	giteasdk "code.gitea.io/sdk/gitea"
	"github.com/PagerDuty/go-pagerduty/webhookv3"
	"github.com/buildkite/go-buildkite/v4"
	"github.com/go-playground/webhooks/v6/azuredevops"
	bitbucketserver "github.com/go-playground/webhooks/v6/bitbucket-server"
	"github.com/go-playground/webhooks/v6/gitea"
	"github.com/go-playground/webhooks/v6/gitlab"
	"github.com/mailgun/mailgun-go/v4"
	"github.com/slack-go/slack"
)

// asked is a request with the secret that it must be signed with.
type asked struct {
	Method  string            `json:"method"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
	Secret  string            `json:"secret"`
}

var errRefused = errors.New("the library refuses the request")

// libraries maps a name to the question whether the library accepts the request.
var libraries = map[string]func(a *asked, r *http.Request) error{
	"mailgun-go": func(a *asked, _ *http.Request) error {
		var body struct {
			Signature mailgun.Signature `json:"signature"`
		}
		if err := json.Unmarshal([]byte(a.Body), &body); err != nil {
			return err
		}
		return mailgunAccepts(a.Secret, body.Signature)
	},
	"mailgun-go-routes": func(a *asked, r *http.Request) error {
		return mailgunAccepts(a.Secret, mailgun.Signature{
			TimeStamp: r.FormValue("timestamp"), Token: r.FormValue("token"), Signature: r.FormValue("signature"),
		})
	},
	"go-pagerduty": func(a *asked, r *http.Request) error { return webhookv3.VerifySignature(r, a.Secret) },
	"gitea-sdk": func(a *asked, r *http.Request) error {
		return accepted(giteasdk.VerifyWebhookSignature(a.Secret, r.Header.Get("X-Gitea-Signature"), []byte(a.Body)))
	},
	"go-buildkite": func(a *asked, r *http.Request) error {
		_, err := buildkite.ValidatePayload(r, []byte(a.Secret))
		return err
	},
	"slack-go": func(a *asked, r *http.Request) error {
		verifier, err := slack.NewSecretsVerifier(r.Header, a.Secret)
		if err != nil {
			return err
		}
		if _, err := verifier.Write([]byte(a.Body)); err != nil {
			return err
		}
		return verifier.Ensure()
	},
	"go-playground-gitea": func(a *asked, r *http.Request) error {
		hook, err := gitea.New(gitea.Options.Secret(a.Secret))
		if err != nil {
			return err
		}
		_, err = hook.Parse(r, gitea.PushEvent)
		return err
	},
	"go-playground-gitlab": func(a *asked, r *http.Request) error {
		hook, err := gitlab.New(gitlab.Options.Secret(a.Secret))
		if err != nil {
			return err
		}
		_, err = hook.Parse(r, gitlab.PushEvents)
		return err
	},
	"go-playground-bitbucket-server": func(a *asked, r *http.Request) error {
		hook, err := bitbucketserver.New(bitbucketserver.Options.Secret(a.Secret))
		if err != nil {
			return err
		}
		_, err = hook.Parse(r, bitbucketserver.RepositoryReferenceChangedEvent)
		return err
	},
	"go-playground-azuredevops": func(a *asked, r *http.Request) error {
		user, password, _ := strings.Cut(a.Secret, ":")
		hook, err := azuredevops.New(azuredevops.Options.BasicAuth(user, password))
		if err != nil {
			return err
		}
		_, err = hook.Parse(r, azuredevops.BuildCompleteEventType)
		return err
	},
}

// mailgunAccepts reports whether Mailgun's library accepts the signature, wherever a request carries it.
func mailgunAccepts(key string, signature mailgun.Signature) error {
	mg := mailgun.NewMailgun("example.com", "key")
	mg.SetWebhookSigningKey(key)
	return accepted(mg.VerifyWebhookSignature(signature))
}

func accepted(ok bool, err error) error {
	if err == nil && !ok {
		return errRefused
	}
	return err
}

func main() {
	if err := ask(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func ask(args []string) error {
	if len(args) != 1 || libraries[args[0]] == nil {
		return errors.New("name one of the libraries")
	}
	var a asked
	if err := json.NewDecoder(os.Stdin).Decode(&a); err != nil {
		return err
	}
	r := httptest.NewRequest(a.Method, a.URL, strings.NewReader(a.Body))
	for name, value := range a.Headers {
		r.Header.Set(name, value)
	}
	return libraries[args[0]](&a, r)
}
