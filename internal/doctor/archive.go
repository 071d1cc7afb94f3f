package doctor

import (
	"context"

	"github.com/oncegate/oncegate/internal/config"
	"github.com/oncegate/oncegate/internal/objectstore"
)

// archive examines the archive of the configuration, and whether one is missing there.
func archive(ctx context.Context, cfg *Config) ([]Finding, error) {
	if cfg.Settings.Archive.URL != "" {
		return Archive(ctx, cfg.Settings), nil
	}
	var exists bool
	if err := cfg.Pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM archive_object)`).Scan(&exists); err != nil || !exists {
		return nil, err
	}
	return []Finding{{State: Fault, Text: "bodies are in an archive that the configuration does not name, so prune removes none", Remedy: "set archive.url"}}, nil
}

// Archive writes an object to the archive, reads it and deletes it, and asks whether the store keeps what is deleted. It finds
// nothing if no archive is configured.
func Archive(ctx context.Context, settings *config.Config) []Finding {
	store, err := settings.Archive.Open()
	if err != nil {
		return []Finding{{Check: "archive", State: Fault, Text: oneLine(err), Remedy: "correct archive"}}
	}
	if store == nil {
		return nil
	}
	found := Finding{Check: "archive", State: Fault, Subject: store.String()}
	if err := objectstore.Probe(ctx, store); err != nil {
		found.Text, found.Remedy = "the archive takes no bodies, so prune removes none: "+oneLine(err), "correct archive.url, archive.endpoint and the account, and allow it to write, read and delete objects"
		return []Finding{found}
	}
	switch kept, err := store.Keeps(ctx); {
	case err != nil:
		found.State = Warning
		found.Text = "whether the bucket keeps versions of deleted objects cannot be read: " + oneLine(err)
		found.Remedy = "allow the account s3:GetBucketVersioning, or examine the bucket yourself"
		return []Finding{found}
	case kept != "":
		found.Text, found.Remedy = "an erasure cannot reach what the store keeps: "+kept, "use a bucket that never had versioning"
		return []Finding{found}
	}
	return nil
}
