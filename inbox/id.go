package inbox

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// ID is a uuid of version 7 (RFC 9562): it sorts by the millisecond it was made
// in, so that rows made together lie together and a body's day can be read from
// its id. The zero ID means none and is stored as NULL.
//
// No reader may take "id > last" for completeness: commits are not in id order.
type ID [16]byte

// ErrID is returned by [ParseID] for text that is not a uuid.
var ErrID = errors.New("not a uuid")

// NewID makes an ID for the instant at. The caller passes a time corrected to
// the database's clock (see [Clock]), so that ids of all nodes agree on the day.
// The 12 bits after the version carry the fraction of the millisecond.
func NewID(at time.Time) ID {
	var id ID
	if _, err := rand.Read(id[8:]); err != nil {
		panic("inbox: the system has no randomness: " + err.Error()) // crypto/rand never returns an error since Go 1.24
	}
	binary.BigEndian.PutUint64(id[:8], stamp(at))
	id[8] = id[8]&0x3f | 0x80
	return id
}

// FirstID is the smallest ID made at or after the millisecond of at: the lower
// bound of a day's partition.
func FirstID(at time.Time) ID {
	var id ID
	binary.BigEndian.PutUint64(id[:8], uint64(at.UnixMilli())<<16)
	return id
}

func stamp(at time.Time) uint64 {
	ms := uint64(at.UnixMilli())
	fraction := uint64(at.Nanosecond()%int(time.Millisecond)) * 4096 / uint64(time.Millisecond)
	return ms<<16 | 0x7000 | fraction
}

// ParseID reads the canonical text form. It returns [ErrID] for anything else.
func ParseID(s string) (ID, error) {
	var id ID
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return ID{}, fmt.Errorf("%w: %d characters", ErrID, len(s))
	}
	plain := s[:8] + s[9:13] + s[14:18] + s[19:23] + s[24:]
	if _, err := hex.Decode(id[:], []byte(plain)); err != nil {
		return ID{}, fmt.Errorf("%w: not hexadecimal", ErrID)
	}
	return id, nil
}

// String returns the canonical text form.
func (id ID) String() string {
	var out [36]byte
	hex.Encode(out[:8], id[:4])
	hex.Encode(out[9:13], id[4:6])
	hex.Encode(out[14:18], id[6:8])
	hex.Encode(out[19:23], id[8:10])
	hex.Encode(out[24:], id[10:])
	out[8], out[13], out[18], out[23] = '-', '-', '-', '-'
	return string(out[:])
}

// IsZero reports whether id is none.
func (id ID) IsZero() bool { return id == ID{} }

// Time is the millisecond id was made in.
func (id ID) Time() time.Time {
	return time.UnixMilli(int64(binary.BigEndian.Uint64(id[:8]) >> 16)).UTC()
}

// MarshalText implements [encoding.TextMarshaler].
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (id *ID) UnmarshalText(text []byte) (err error) {
	*id, err = ParseID(string(text))
	return err
}

// UUIDValue implements [pgtype.UUIDValuer].
func (id ID) UUIDValue() (pgtype.UUID, error) {
	return pgtype.UUID{Bytes: id, Valid: !id.IsZero()}, nil
}

// ScanUUID implements [pgtype.UUIDScanner].
func (id *ID) ScanUUID(v pgtype.UUID) error {
	*id = ID{}
	if v.Valid {
		*id = v.Bytes
	}
	return nil
}
