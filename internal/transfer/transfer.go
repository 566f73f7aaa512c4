// Package transfer reads and writes the file that moves a tenant to another fleet.
//
// The file is NDJSON. The first line is a Header. Each further line is an object with one field: a table's name, and a
// row of it as an object. The last line is a Trailer under the name "end", with the numbers of rows and the SHA-256 of
// all lines before, so a file that is cut is recognized. Values of secrets are sealed with a key that is not in the file.
package transfer

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// Format is the version of the format that this package reads and writes.
const Format = 1

// maxLine is the longest line: the largest job, escaped, and more.
const maxLine = 64 << 20

// Names that no table has.
const (
	endName  = "end"
	failName = "error" // the export failed; its value is the reason
)

// Header is the first line.
type Header struct {
	Format  int       `json:"assay_tenant"`
	ID      job.ID    `json:"id"`    // of the export; a repeated import is recognized by it
	Fleet   string    `json:"fleet"` // that exported
	Schema  int64     `json:"schema"`
	Tenant  string    `json:"tenant"`
	At      time.Time `json:"at"`
	Objects []string  `json:"objects"`          // prefixes of the tenant's objects
	Sealed  []byte    `json:"sealed,omitempty"` // a known value, sealed with the key of the secrets
}

// Trailer is the last line.
type Trailer struct {
	Rows   map[string]int64 `json:"rows"` // by table
	SHA256 string           `json:"sha256"`
}

// Writer writes a file.
type Writer struct {
	w    io.Writer
	sum  hash.Hash
	rows map[string]int64
	line bytes.Buffer
}

// NewWriter writes the header.
func NewWriter(w io.Writer, h Header) (*Writer, error) {
	out := &Writer{w: w, sum: sha256.New(), rows: map[string]int64{}}
	h.Format = Format
	raw, err := json.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("encode the header: %w", err)
	}
	out.line.Write(raw)
	return out, out.flush()
}

// flush writes the line.
func (w *Writer) flush() error {
	w.line.WriteByte('\n')
	w.sum.Write(w.line.Bytes())
	_, err := w.w.Write(w.line.Bytes())
	w.line.Reset()
	return err
}

func (w *Writer) put(name string, raw []byte) error {
	fmt.Fprintf(&w.line, `{"%s":%s}`, name, raw)
	return w.flush()
}

// Row writes a row of a table. raw is a JSON object without line breaks.
func (w *Writer) Row(table string, raw []byte) error {
	w.rows[table]++
	return w.put(table, raw)
}

// End writes the trailer.
func (w *Writer) End() error {
	raw, err := json.Marshal(Trailer{w.rows, hex.EncodeToString(w.sum.Sum(nil))})
	if err != nil {
		return fmt.Errorf("encode the trailer: %w", err)
	}
	return w.put(endName, raw)
}

// Fail writes the reason why the file ends before its trailer.
func (w *Writer) Fail(cause error) error {
	raw, err := json.Marshal(cause.Error())
	if err != nil {
		return fmt.Errorf("encode the reason: %w", err)
	}
	return w.put(failName, raw)
}

// Reader reads a file.
type Reader struct {
	r    *bufio.Reader
	sum  hash.Hash
	rows map[string]int64
}

// NewReader reads the header. The error wraps job.ErrInvalid if there is none of this format.
func NewReader(r io.Reader) (*Reader, Header, error) {
	in := &Reader{bufio.NewReaderSize(r, 64<<10), sha256.New(), map[string]int64{}}
	line, err := in.line()
	var h Header
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		return nil, h, invalid("the file is empty")
	default:
		return nil, h, err
	}
	in.sum.Write(line)
	if json.Unmarshal(line, &h) != nil || h.Format == 0 {
		return nil, h, invalid("the first line is not the header of an exported tenant")
	}
	if h.Format != Format {
		return nil, h, invalid("the file has format %d, and this release reads format %d", h.Format, Format)
	}
	if _, err := job.ParseID(string(h.ID)); err != nil {
		return nil, h, invalid("the header has no id")
	}
	return in, h, nil
}

func invalid(format string, args ...any) error {
	return job.Invalid("file", format, args...)
}

// line returns the next line with its line break. The error is io.EOF at the end of the file.
func (r *Reader) line() (line []byte, err error) {
	for {
		part, err := r.r.ReadSlice('\n')
		if line = append(line, part...); len(line) > maxLine {
			return nil, invalid("a line is longer than %d bytes", maxLine)
		}
		switch {
		case err == nil, errors.Is(err, io.EOF) && len(line) > 0:
			return line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// Next returns the next row. The error is io.EOF after a correct trailer, and wraps job.ErrInvalid if the file is cut,
// changed or the result of a failed export.
func (r *Reader) Next() (table string, raw json.RawMessage, err error) {
	line, err := r.line()
	if errors.Is(err, io.EOF) {
		return "", nil, invalid("it ends before its last line, so it is cut; copy or export it again")
	}
	if err != nil {
		return "", nil, err
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(line, &fields) != nil || len(fields) != 1 {
		return "", nil, invalid("a line is cut or changed; copy or export it again")
	}
	for table, raw = range fields { // one
	}
	switch table {
	case endName:
		return "", nil, r.end(raw)
	case failName:
		var cause string
		_ = json.Unmarshal(raw, &cause) // an empty reason is better than none
		return "", nil, fmt.Errorf("%w: the export failed: %s", job.ErrConflict, cause)
	}
	r.sum.Write(line)
	r.rows[table]++
	return table, raw, nil
}

// end compares the trailer with the lines before.
func (r *Reader) end(raw []byte) error {
	var t Trailer
	if json.Unmarshal(raw, &t) != nil || t.SHA256 != hex.EncodeToString(r.sum.Sum(nil)) || !maps.Equal(t.Rows, r.rows) {
		return invalid("its lines differ from the exported ones; copy or export it again")
	}
	if _, err := r.r.ReadByte(); !errors.Is(err, io.EOF) {
		return invalid("it continues after its last line")
	}
	return io.EOF
}

// Rows returns the numbers of rows by table that Next has returned.
func (r *Reader) Rows() map[string]int64 { return maps.Clone(r.rows) }

// Verify reads a whole file. It returns the header, and the numbers of rows by table.
func Verify(r io.Reader) (Header, map[string]int64, error) {
	in, h, err := NewReader(r)
	for err == nil {
		_, _, err = in.Next()
	}
	if errors.Is(err, io.EOF) {
		return h, in.Rows(), nil
	}
	return h, nil, err
}
