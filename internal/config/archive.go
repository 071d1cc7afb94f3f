package config

import (
	"slices"

	"github.com/oncegate/oncegate/internal/objectstore"
)

// Archive configures where bodies go before prune removes them.
type Archive struct {
	// URL is s3://bucket/prefix or file:///directory. Empty means that nothing is archived.
	URL string
	// Endpoint is the address of an S3-compatible store. Empty means AWS.
	Endpoint string
	// Region is the region of the bucket.
	Region string
	// AccessKey and SecretKey are the account. If both are empty, the role of the machine is used.
	AccessKey string
	SecretKey []Reference
	// Classes are the retention classes whose bodies are archived. Empty means all.
	Classes []string
}

// Open returns the store of the archive. It returns nil if none is configured, and connects to nothing.
func (a *Archive) Open() (objectstore.Store, error) {
	if a.URL == "" {
		return nil, nil //nolint:nilnil // no store is a state of its own
	}
	cfg := objectstore.Config{URL: a.URL, Endpoint: a.Endpoint, Region: a.Region, AccessKey: a.AccessKey}
	if len(a.SecretKey) > 0 {
		cfg.SecretKey = string(values(a.SecretKey)[0].Value)
	}
	return objectstore.Open(cfg)
}

func (a *Archive) keys() []Key {
	return []Key{
		value("url", &a.URL, words(verbatim), "none", "Where bodies are written before they are removed: `s3://bucket/prefix`, or `file:///directory` for a directory that all processes share."),
		value("endpoint", &a.Endpoint, words(verbatim), "AWS", "The address of an S3-compatible store, such as `https://s3.example.com`."),
		value("region", &a.Region, words(verbatim), "`us-east-1`", "The region of the bucket."),
		reference("access_key", &a.AccessKey, verbatim, "the role of the machine", "The id of the account's key. `env:NAME` and `file:/path` are accepted."),
		secrets("secret_key", &a.SecretKey, "the role of the machine", "The secret of `access_key`, as a secret reference. The first one of a list is used."),
		list("classes", &a.Classes, words(verbatim), "all", "The retention classes whose bodies are archived. The bodies of the others are removed."),
	}
}

// checkArchive reports settings that can never work.
func (r *reader) checkArchive(cfg *Config, o Options) {
	a := &cfg.Archive
	if !r.sound("archive") {
		return
	}
	if a.URL == "" {
		if a.Endpoint != "" || a.AccessKey != "" || len(a.SecretKey) > 0 || len(a.Classes) > 0 {
			r.report.Add("archive.url: missing; set it to s3://bucket/prefix or file:///directory")
		}
		return
	}
	if _, err := a.Open(); err != nil {
		r.report.Add("archive.%v", err)
	}
	if o.DatabaseOnly {
		return
	}
	for _, name := range a.Classes {
		if !slices.ContainsFunc(cfg.Classes, func(c *Class) bool { return c.Name == name }) {
			r.report.Add("archive.classes: there is no class %q", name)
		}
	}
}
