package main

import (
	"fmt"
	"io"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/CycloneDX/cyclonedx-gomod/pkg/generate/bin" // reads what the toolchain wrote into the binary
	"github.com/google/uuid"
	"github.com/rs/zerolog"
)

// listModules writes the bill of materials of a binary (SBOM, CycloneDX 1.6): each module in it with its version and hash.
func (r *release) listModules(p platform) error {
	generator, err := bin.NewGenerator(r.binary(p), bin.WithIncludeStdlib(true), bin.WithVersionOverride("v"+r.version), bin.WithLogger(zerolog.Nop()))
	if err != nil {
		return err
	}
	list, err := generator.Generate()
	if err != nil {
		return fmt.Errorf("listing the modules of %s: %w", p, err)
	}
	// A random serial number and the present time would make every run differ.
	list.SerialNumber = uuid.NewSHA1(uuid.NameSpaceURL, []byte("https://github.com/oncegate/oncegate/"+r.version+"/"+p.String())).URN()
	if list.Metadata == nil {
		list.Metadata = &cyclonedx.Metadata{}
	}
	list.Metadata.Timestamp = r.time.Format(time.RFC3339)
	name := fmt.Sprintf("oncegate_%s_%s_%s.cdx.json", r.version, p.system, p.processor)
	return r.write(name, func(w io.Writer) error {
		encoder := cyclonedx.NewBOMEncoder(w, cyclonedx.BOMFileFormatJSON)
		encoder.SetPretty(true)
		return encoder.EncodeVersion(list, cyclonedx.SpecVersion1_6)
	})
}
