package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/internal/devpg"
)

// TestFetch downloads from a repository on 127.0.0.1 that serves this machine's own server programs
// in the layout that the library expects, and starts a cluster with the unpacked programs.
func TestFetch(t *testing.T) {
	t.Parallel()
	machine, err := devpg.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	archive := jar(t, machine)
	sum := sha256.Sum256(archive)
	repository := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !strings.HasPrefix(r.URL.Path, "/io/zonky/test/postgres/embedded-postgres-binaries-"):
			http.NotFound(w, r)
		case strings.HasSuffix(r.URL.Path, ".jar"):
			_, _ = w.Write(archive)
		case strings.HasSuffix(r.URL.Path, ".jar.sha256"):
			_, _ = w.Write([]byte(hex.EncodeToString(sum[:])))
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(repository.Close)

	dir := reachableDir(t)
	// As root the library's trial always fails, as it does if the machine's programs need a library
	// path, but the programs are unpacked all the same.
	led := slices.ContainsFunc(machine.Env(), func(v string) bool { return strings.HasPrefix(v, "LD_LIBRARY_PATH=") })
	if err := fetch(t.Context(), dir, repository.URL); err != nil && os.Geteuid() != 0 && !led {
		t.Fatal(err)
	}
	if led { // such programs find their libraries by their own path, so they do not run after the move
		if _, err := os.Stat(filepath.Join(dir, "bin", "postgres")); err != nil {
			t.Error(err)
		}
		return
	}
	fetched, err := devpg.Find(t.Context(), filepath.Join(dir, "bin"))
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(dir, "bin"); fetched.Dir != want {
		t.Fatalf("the server is taken from %s, want %s", fetched.Dir, want)
	}
	server, err := devpg.Start(t.Context(), devpg.Config{Binaries: fetched, Volatile: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestFetchSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	repository := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(repository.Close)
	err := fetch(t.Context(), reachableDir(t), repository.URL)
	if err == nil || !strings.Contains(err.Error(), "no version found") {
		t.Errorf("got %v", err)
	}
	for _, needed := range []string{"initdb and postgres", "DATABASE_URL", "TEST_DATABASE_URL", repositoryVariable} {
		if !strings.Contains(advice(), needed) {
			t.Errorf("the advice does not name %s", needed)
		}
	}
}

// reachableDir returns a temporary directory that the account that runs PostgreSQL instead of root
// can enter.
func reachableDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// jar packs an installation in the repository's format: a zip file with one tar file in it,
// compressed with xz.
func jar(t *testing.T, b devpg.Binaries) []byte {
	t.Helper()
	var tarred bytes.Buffer
	w := tar.NewWriter(&tarred)
	add := func(name, path string) {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(content)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	for _, program := range []string{"initdb", "postgres", "pg_ctl"} {
		add("bin/"+program, b.Path(program))
	}
	root := filepath.Dir(b.Dir)
	libraries, err := filepath.Glob(filepath.Join(root, "lib", "*.so"))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range b.Env() {
		// Programs with their own libraries do not start without them. The largest library is the
		// query compiler, which is not needed.
		if brought, found := strings.CutPrefix(entry, "LD_LIBRARY_PATH="); found {
			also, err := filepath.Glob(filepath.Join(brought, "lib*.so*"))
			if err != nil {
				t.Fatal(err)
			}
			libraries = append(libraries, also...)
		}
	}
	for _, path := range libraries {
		if info, err := os.Stat(path); err == nil && info.Size() < 50<<20 {
			add("lib/"+filepath.Base(path), path)
		}
	}
	// If the installation can be moved as a whole, its shared files are next to its programs.
	if _, err := os.Stat(filepath.Join(root, "share", "postgres.bki")); err == nil {
		err := filepath.WalkDir(filepath.Join(root, "share"), func(path string, entry os.DirEntry, err error) error {
			if err == nil && entry.Type().IsRegular() {
				add(strings.TrimPrefix(path, root+"/"), path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var zipped bytes.Buffer
	z := zip.NewWriter(&zipped)
	f, err := z.Create("postgres.txz")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(xz(tarred.Bytes())); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return zipped.Bytes()
}

// xz wraps data in the .xz format without compressing it
// (https://tukaani.org/xz/xz-file-format.txt, with LZMA2's uncompressed chunks), so the test needs
// no program or library for compression.
func xz(data []byte) []byte {
	checksum := func(b []byte) []byte { return binary.LittleEndian.AppendUint32(nil, crc32.ChecksumIEEE(b)) }
	pad := func(b []byte) []byte { return append(b, make([]byte, (4-len(b)%4)%4)...) }
	flags := []byte{0x00, 0x01} // CRC32

	out := append([]byte{0xFD, '7', 'z', 'X', 'Z', 0x00}, flags...)
	out = append(out, checksum(flags)...)

	header := []byte{0x02, 0x00, 0x21, 0x01, 0x16, 0x00, 0x00, 0x00} // 12 bytes, one filter: LZMA2, dictionary of 8 MiB
	block := append(header, checksum(header)...)
	control := byte(0x01) // uncompressed, dictionary reset
	for rest := data; len(rest) > 0; control = 0x02 {
		n := min(len(rest), 1<<16)
		block = append(block, control, byte((n-1)>>8), byte(n-1))
		block = append(block, rest[:n]...)
		rest = rest[n:]
	}
	block = append(block, 0x00)
	unpadded := len(block) + 4
	block = append(pad(block), checksum(data)...)
	out = append(out, block...)

	index := binary.AppendUvarint([]byte{0x00, 0x01}, uint64(unpadded))
	index = pad(binary.AppendUvarint(index, uint64(len(data))))
	index = append(index, checksum(index)...)
	out = append(out, index...)

	footer := append(binary.LittleEndian.AppendUint32(nil, uint32(len(index)/4-1)), flags...)
	out = append(out, checksum(footer)...)
	out = append(out, footer...)
	return append(out, 'Y', 'Z')
}
