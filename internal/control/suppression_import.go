package control

import (
	"context"

	"github.com/oncegate/oncegate/inbox/suppression"
)

// ImportSuppressionsRequest has some or all of the addresses of a file.
type ImportSuppressionsRequest struct {
	Explained
	SuppressionTerms

	// Addresses are at most 1,000. If one of them is invalid, nothing is changed.
	Addresses []string `json:"addresses"`

	// DryRun returns which of them are invalid and changes nothing.
	DryRun bool `json:"dry_run,omitempty"`
}

// ImportedSuppressions is the result for the addresses.
type ImportedSuppressions struct {
	suppression.Added

	// Invalid are the positions of the invalid addresses, counted from 0. Only a dry run has any.
	Invalid []int `json:"invalid,omitempty"`
}

// ImportSuppressions suppresses many addresses at once.
var ImportSuppressions = Operation[ImportSuppressionsRequest, ImportedSuppressions]{
	ID: "import_suppressions", Method: "POST", Path: "/suppressions/import", Scope: Operate,
	Summary: "Send no more messages to any of up to 1,000 addresses. A longer file is imported in parts; importing one again changes nothing.",
	Why:     "where does the file come from?", Confirm: "import",
	Do: func(ctx context.Context, s *Service, access Access, r ImportSuppressionsRequest) (out ImportedSuppressions, err error) {
		if len(r.Addresses) == 0 || len(r.Addresses) > suppression.MaxBatch {
			return out, invalid("addresses: from 1 to %d at once, not %d", suppression.MaxBatch, len(r.Addresses))
		}
		for i, address := range r.Addresses {
			if _, err := suppression.Normalize(address); err != nil {
				out.Invalid = append(out.Invalid, i)
			}
		}
		if r.DryRun {
			return out, access.untenanted("suppressed addresses")
		}
		if len(out.Invalid) > 0 {
			return ImportedSuppressions{}, invalid("addresses: number %d, counted from 0, is no address; nothing was changed", out.Invalid[0])
		}
		out.Added, err = s.suppress(ctx, access, r.SuppressionTerms, r.Explained, true, r.Addresses...)
		return out, err
	},
}
