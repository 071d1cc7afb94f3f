package lab

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// EvictFromCache removes a file's content from the machine's page cache. The file must have been
// synced, because dirty pages stay.
func EvictFromCache(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("taking a file out of the cache: %w", err)
	}
	defer file.Close()
	if err := unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		return fmt.Errorf("taking %s out of the cache: %w", path, err)
	}
	return nil
}
