package scheme

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha1" //nolint:gosec // signature version 1
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"
)

// SNS verifies messages of Amazon SNS. It is written in Go because the signature is inside the
// message, covers fields in an order that depends on the message type, and uses a certificate that
// the message names.
//
// Every AWS account can sign messages of the topics that it owns, so a source must list its topics
// (setting topic_arns). A confirmation of a subscription is recorded like any message. Oncegate
// never requests SubscribeURL.
//
// A certificate is fetched only from the endpoint in the topic's region, as AWS's own
// SnsMessageManager does, and only from a path of the documented form.
type SNS struct{}

var (
	snsARN  = regexp.MustCompile(`^arn:(aws(?:-[a-z-]+)?):sns:([a-z0-9-]+):[0-9]{12}:[A-Za-z0-9_.-]{1,256}$`)
	snsPath = regexp.MustCompile(`^/SimpleNotificationService-[0-9A-Fa-f]{8,128}\.pem$`)
)

// snsHost returns the endpoint of the region of a topic.
func snsHost(arn string) string {
	parts := snsARN.FindStringSubmatch(arn)
	if parts == nil {
		return ""
	}
	host := "sns." + parts[2] + ".amazonaws.com"
	if parts[1] == "aws-cn" {
		host += ".cn"
	}
	return host
}

// Check returns an error for every secret, because Amazon SNS signs with a certificate.
func (SNS) Check([]byte) error {
	return errors.New("is not used: Amazon SNS signs with a certificate")
}

// Secretless returns true.
func (SNS) Secretless(Settings) bool { return true }

// Prepare checks the topics.
func (SNS) Prepare(s Settings) error {
	for _, arn := range s["topic_arns"] {
		if !snsARN.MatchString(arn) {
			return errors.New("setting topic_arns: not the ARN of a topic")
		}
	}
	return nil
}

var snsNames = []string{
	"Type", "MessageId", "TopicArn", "Subject", "Message", "Timestamp", "Token", "SubscribeURL", "SignatureVersion", "Signature", "SigningCertURL",
}

type snsMessage struct {
	Type, MessageID, TopicARN, Message, Timestamp, Token, SubscribeURL string
	Subject                                                            *string
	Version, Signature, CertURL                                        string
}

func (m *snsMessage) read(body []byte) bool {
	var raw struct {
		Type             string  `json:"Type"`
		MessageID        string  `json:"MessageId"`
		TopicARN         string  `json:"TopicArn"`
		Subject          *string `json:"Subject"`
		Message          string  `json:"Message"`
		Timestamp        string  `json:"Timestamp"`
		Token            string  `json:"Token"`
		SubscribeURL     string  `json:"SubscribeURL"`
		SignatureVersion string  `json:"SignatureVersion"`
		Signature        string  `json:"Signature"`
		SigningCertURL   string  `json:"SigningCertURL"`
	}
	if json.Unmarshal(body, &raw) != nil {
		return false
	}
	*m = snsMessage{
		Type: raw.Type, MessageID: raw.MessageID, TopicARN: raw.TopicARN, Subject: raw.Subject, Message: raw.Message, Timestamp: raw.Timestamp,
		Token: raw.Token, SubscribeURL: raw.SubscribeURL, Version: raw.SignatureVersion, Signature: raw.Signature, CertURL: raw.SigningCertURL,
	}
	return true
}

// canonical returns the signed text: names and values, a line each, sorted by name.
func (m *snsMessage) canonical() (string, bool) {
	var pairs []string
	switch m.Type {
	case "Notification":
		pairs = []string{"Message", m.Message, "MessageId", m.MessageID}
		if m.Subject != nil {
			pairs = append(pairs, "Subject", *m.Subject)
		}
		pairs = append(pairs, "Timestamp", m.Timestamp, "TopicArn", m.TopicARN, "Type", m.Type)
	case "SubscriptionConfirmation", "UnsubscribeConfirmation":
		pairs = []string{
			"Message", m.Message, "MessageId", m.MessageID, "SubscribeURL", m.SubscribeURL,
			"Timestamp", m.Timestamp, "Token", m.Token, "TopicArn", m.TopicARN, "Type", m.Type,
		}
	default:
		return "", false
	}
	return strings.Join(pairs, "\n") + "\n", true
}

// Verify checks certificate, signature and topic.
func (SNS) Verify(in *Input) (Result, error) {
	if raw, err := in.header("X-Amz-Sns-Rawdelivery"); err != nil {
		return Result{}, err
	} else if strings.EqualFold(raw, "true") {
		return Result{}, refuse(Unsigned, "raw message delivery has no signature; switch it off for this subscription")
	}
	if err := unambiguous(in.Body, snsNames); err != nil {
		return Result{}, err
	}
	var m snsMessage
	if !m.read(in.Body) {
		return Result{}, refuse(Malformed, "the body is not a message")
	}
	if m.Signature == "" {
		return Result{}, refuse(Unsigned, "the message has no signature")
	}
	text, ok := m.canonical()
	if !ok {
		return Result{}, refuse(Malformed, "the message is of an unknown type")
	}
	sum, err := base64.StdEncoding.Strict().DecodeString(m.Signature)
	if err != nil {
		return Result{}, refuse(Malformed, "the message has a signature that is not base64")
	}
	if !slices.Contains(in.Settings["topic_arns"], m.TopicARN) {
		return Result{}, refuse(Mismatch, "the message is of a topic that setting topic_arns does not list")
	}
	host := snsHost(m.TopicARN)
	path, ok := strings.CutPrefix(m.CertURL, "https://"+host)
	if host == "" || !ok || !snsPath.MatchString(path) {
		return Result{}, refuse(Mismatch, "SigningCertURL is not an address of Amazon SNS in the region of the topic")
	}
	want := certificateRequest(m.CertURL, host)
	key, err := in.certificate(want, func(c *x509.Certificate) bool {
		return c.Subject.CommonName == host || c.VerifyHostname(host) == nil || c.VerifyHostname("sns.amazonaws.com") == nil || c.Subject.CommonName == "sns.amazonaws.com"
	})
	if err != nil {
		return Result{}, err
	}
	hash := crypto.SHA256
	var digest []byte
	switch m.Version {
	case "1":
		d := sha1.Sum([]byte(text)) //nolint:gosec // signature version 1
		hash, digest = crypto.SHA1, d[:]
	case "2":
		d := sha256.Sum256([]byte(text))
		digest = d[:]
	default:
		return Result{}, refuse(Malformed, "SignatureVersion is neither 1 nor 2")
	}
	if rsa.VerifyPKCS1v15(key, hash, digest, sum) != nil {
		return Result{}, refuse(Mismatch, "the certificate does not match the signature")
	}
	in.confirm(want)
	at, err := time.Parse(time.RFC3339, m.Timestamp)
	if err != nil {
		return Result{}, refuse(Malformed, "the message has no time")
	}
	return Result{Secret: "certificate", SignedAt: at.UTC()}, in.fresh(at)
}
