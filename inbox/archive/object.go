package archive

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/oncegate/oncegate/inbox"
)

// Format is the name of the format of objects, in their [Index]. Stored: never change.
const Format = "oncegate-archive/1"

// frameBytes is how many bytes of lines a frame has before it ends: a single body is read with its frame, and lines that are
// alike take less space in one frame.
const frameBytes = 256 << 10

// Index says which lines are where in an object.
type Index struct {
	Format string  `json:"format"`
	Frames []Frame `json:"frames"`
}

// Frame is one zstd frame of an object.
type Frame struct {
	// First and Last are the least and the greatest key of its lines.
	First inbox.ID `json:"first"`
	Last  inbox.ID `json:"last"`
	// Offset and Size say where in the object it is.
	Offset int64 `json:"offset"`
	Size   int64 `json:"size"`
	Lines  int   `json:"lines"`
}

// ErrDamaged means that an object, or a line in it, is not what was written.
var ErrDamaged = errors.New("the archive's object is damaged")

// The beginning of a skippable frame (RFC 8878, section 3.1.2): a magic number and the length of what follows.
const (
	skippableMagic  = 0x184D2A50
	skippableHeader = 8
)

// codec compresses and decompresses frames.
type codec struct {
	encoder *zstd.Encoder
	decoder *zstd.Decoder
}

func newCodec() (*codec, error) {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(true))
	if err != nil {
		return nil, err
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderMaxMemory(1<<30))
	return &codec{encoder, decoder}, err
}

// encode returns the object of lines, sorted by their key, and where its index begins.
func (c *codec) encode(lines []Line) (object []byte, indexOffset int64, err error) {
	index := Index{Format: Format, Frames: []Frame{}}
	var raw bytes.Buffer
	write := json.NewEncoder(&raw)
	write.SetEscapeHTML(false)
	begun := 0
	for i := range lines {
		if err := write.Encode(&lines[i]); err != nil {
			return nil, 0, err
		}
		if raw.Len() < frameBytes && i < len(lines)-1 {
			continue
		}
		offset := int64(len(object))
		object = c.encoder.EncodeAll(raw.Bytes(), object)
		index.Frames = append(index.Frames, Frame{
			First: lines[begun].key(), Last: lines[i].key(), Offset: offset, Size: int64(len(object)) - offset, Lines: i + 1 - begun,
		})
		raw.Reset()
		begun = i + 1
	}
	text, err := json.Marshal(index)
	if err != nil {
		return nil, 0, err
	}
	indexOffset = int64(len(object))
	object = binary.LittleEndian.AppendUint32(object, skippableMagic)
	object = binary.LittleEndian.AppendUint32(object, uint32(len(text)))
	return append(object, text...), indexOffset, nil
}

// decodeIndex reads the skippable frame of an object.
func decodeIndex(stored []byte) (*Index, error) {
	var index Index
	if len(stored) < skippableHeader || binary.LittleEndian.Uint32(stored) != skippableMagic ||
		int64(binary.LittleEndian.Uint32(stored[4:])) != int64(len(stored)-skippableHeader) {
		return nil, fmt.Errorf("%w: it does not end in an index", ErrDamaged)
	}
	if err := json.Unmarshal(stored[skippableHeader:], &index); err != nil || index.Format != Format {
		return nil, fmt.Errorf("%w: its index is not of the format %s", ErrDamaged, Format)
	}
	return &index, nil
}

// decode returns the lines of one frame or of a whole object.
func (c *codec) decode(stored []byte) ([]Line, error) {
	raw, err := c.decoder.DecodeAll(stored, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	var lines []Line
	for text := range bytes.Lines(raw) {
		var line Line
		if err := json.Unmarshal(text, &line); err != nil {
			return nil, fmt.Errorf("%w: a line is no JSON of a line", ErrDamaged)
		}
		lines = append(lines, line)
	}
	return lines, nil
}

// sortLines brings the lines of an object into their order.
func sortLines(lines []Line) {
	slices.SortFunc(lines, func(a, b Line) int {
		x, y := a.key(), b.key()
		return bytes.Compare(x[:], y[:])
	})
}
