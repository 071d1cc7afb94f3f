package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// DiscardedBytes returns how many bytes the machine's disks have been told so far that they need
// not keep. A file system that is mounted with discard tells them while it removes a file, and
// other requests to the disk take longer meanwhile. The bytes of a disk that consists of others are
// counted once more for those.
func DiscardedBytes() (bytes int64, err error) {
	stats, err := filepath.Glob("/sys/block/*/stat")
	if err != nil {
		return 0, fmt.Errorf("listing the disks: %w", err)
	}
	const sectors, sector = 13, 512 // Documentation/block/stat.rst of Linux: fields of a disk, units of UNIX sectors
	for _, path := range stats {
		content, err := os.ReadFile(path)
		if err != nil {
			return 0, fmt.Errorf("reading what a disk did: %w", err)
		}
		fields := strings.Fields(string(content))
		if len(fields) <= sectors {
			continue // a kernel before 4.18
		}
		n, err := strconv.ParseInt(fields[sectors], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("reading %s: %w", path, err)
		}
		bytes += n * sector
	}
	return bytes, nil
}
