package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"
)

//go:embed assets
var assetFiles embed.FS

// asset is a file that browsers may cache permanently, because its name changes with its content.
type asset struct {
	Path, Integrity string
	kind            string
	content         []byte
}

// assets are the files by the names that pages use.
var assets = map[string]*asset{
	"console.css": loadAsset("console.css"),
	"console.js":  loadAsset("console.js"),
	"manual.css":  loadAsset("manual.css"),
	"icon.svg":    loadAsset("icon.svg"),
}

// contentPolicy lets a page load the style and the icon of this server, run the script whose hash it names, send forms
// to this server, and nothing else.
var contentPolicy = strings.Join([]string{
	"default-src 'none'", "style-src 'self'", "img-src 'self'", "script-src '" + assets["console.js"].Integrity + "'", "connect-src 'self'",
	"form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'",
}, "; ")

func loadAsset(name string) *asset {
	content, err := assetFiles.ReadFile("assets/" + name)
	if err != nil {
		panic("console: " + err.Error()) // it is part of the program
	}
	sum := sha256.Sum256(content)
	base, extension := strings.TrimSuffix(name, path.Ext(name)), path.Ext(name)
	return &asset{
		Path:      "/assets/" + base + "." + hex.EncodeToString(sum[:8]) + extension,
		Integrity: "sha256-" + base64.StdEncoding.EncodeToString(sum[:]),
		kind:      mime.TypeByExtension(extension), content: content,
	}
}

// serveAsset serves a file. It needs no login, because the files are public.
func serveAsset(w http.ResponseWriter, r *http.Request) {
	for _, a := range assets {
		if a.Path == r.URL.Path {
			w.Header().Set("Content-Type", a.kind)
			w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(a.content))
			return
		}
	}
	http.NotFound(w, r)
}
