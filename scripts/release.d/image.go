package main

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name" // writes images without a container engine or a registry
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/crypto/x509roots/fallback/bundle" // Mozilla's root certificates, so that no base image is needed
)

// image writes a container image for docker load, podman load and skopeo: the static binary, root certificates and a user, and nothing
// else. It has the names oncegate:VERSION and oncegate:latest; compose.yaml uses the latter.
func (r *release) image(p platform) error {
	roots, user := filepath.Join(r.work, "ca-certificates.crt"), filepath.Join(r.work, "passwd")
	if err := os.WriteFile(roots, rootCertificates(), 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(user, []byte("nonroot:x:65532:65532:nonroot:/:/sbin/nologin\n"), 0o644); err != nil {
		return err
	}
	var b bytes.Buffer
	if err := r.plainTar(&b, "", []entry{
		{"etc/passwd", user, 0o644},
		{"etc/ssl/certs/ca-certificates.crt", roots, 0o644},
		{"oncegate", r.binary(p), 0o755},
	}); err != nil {
		return err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil })
	if err != nil {
		return err
	}
	image, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		OS: p.system, Architecture: p.processor, Created: v1.Time{Time: r.time}, RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User: "65532:65532", Entrypoint: []string{"/oncegate"}, Cmd: []string{"serve"}, ExposedPorts: map[string]struct{}{"8080/tcp": {}},
			Env: []string{"PATH=/"},
			Labels: map[string]string{
				"org.opencontainers.image.title": "Oncegate", "org.opencontainers.image.version": r.version,
				"org.opencontainers.image.licenses": "Apache-2.0", "org.opencontainers.image.source": "https://github.com/oncegate/oncegate",
			},
		},
	})
	if err != nil {
		return err
	}
	if image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: r.time}, CreatedBy: "./scripts/release"}}); err != nil {
		return err
	}
	names := map[name.Reference]v1.Image{}
	for _, tag := range []string{r.version, "latest"} {
		ref, err := name.NewTag("oncegate:"+tag, name.WithDefaultRegistry(""))
		if err != nil {
			return err
		}
		names[ref] = image
	}
	file := fmt.Sprintf("oncegate_%s_linux_%s_image.tar", r.version, p.processor)
	return r.write(file, func(w io.Writer) error { return tarball.MultiRefWrite(names, w) })
}

// rootCertificates returns the certificates of the authorities that Mozilla trusts without constraints.
func rootCertificates() []byte {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a buffer refuses nothing
		}
	}
	return b.Bytes()
}
