package grade

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strconv"

	"github.com/assay-run/assay/internal/frame"
	"github.com/assay-run/assay/pkg/runtime/toll"
)

// Limits of a case's frames that are not part of its answer. They include requests for the
// remaining time.
const (
	maxStrayBytes = 1 << 20 // total bytes of these frames
	// frameCost is the number of bytes that each frame counts for in addition. The worker reads as
	// many in the time that it takes for a small frame.
	frameCost  = 8 << 10
	maxControl = 64 << 10
)

// caseFrames reads the frames of one case. The solution shares its stream with the guest and can
// send any frame at any time, so caseFrames decodes only expected frames. It skips the others and
// counts their bytes.
type caseFrames struct {
	id       int64
	answered bool        // the next frame of the case is small
	bytes    int         // of other frames, with frameCost for each
	toll     *toll.Meter // of the job, which pays for all frames
}

// next reads the next frame of the case. The errors are those from frameReader.next. frame.ErrProtocol
// also means that the solution sent too many other frames, or an overlong one.
func (c *caseFrames) next(r io.Reader) (*message, error) {
	for {
		f, size, err := c.read(r)
		if err != nil {
			return nil, err
		}
		if f != nil && f.Op != "late" {
			c.answered = true
			return f, nil
		}
		if c.bytes += size + frameCost; c.bytes > maxStrayBytes {
			return nil, fmt.Errorf("%w: more than %d bytes that are no answer; each frame counts for %d more", frame.ErrProtocol, maxStrayBytes, frameCost)
		}
		if f != nil {
			return f, nil
		}
	}
}

// read reads one frame and returns its size. It does not decode unexpected frames.
func (c *caseFrames) read(r io.Reader) (f *message, size int, err error) {
	peeked := &headReader{Reader: r}
	raw, err := frame.Read(peeked, frameLimits, func(size int) error {
		if size <= maxControl {
			return nil
		}
		if err := peeked.peek(min(size, headSize)); err != nil {
			return err
		}
		if !c.expects(peeked.head, true) {
			return fmt.Errorf("%w: a frame of %d bytes that is no answer", frame.ErrProtocol, size)
		}
		return nil
	})
	if err != nil {
		return nil, 0, noCut(err)
	}
	if len(raw) == 0 || raw[0] != '{' {
		return nil, 0, fmt.Errorf("%w: a frame that is no JSON object", frame.ErrProtocol)
	}
	c.toll.Measure(func() {
		if c.expects(raw, false) {
			f, err = decodeFrame(raw)
		}
	})
	return f, len(raw), err
}

// headSize limits the part of a frame with its op and id.
const headSize = 256

// head matches the start of each frame of a case, as the guest writes it.
var head = regexp.MustCompile(`^\{"op": ?"([a-z]+)", ?"id": ?([0-9]{1,18})[,}]`)

// expects reports whether the case waits for a frame with this start. Only an answer may be longer
// than maxControl.
func (c *caseFrames) expects(raw []byte, long bool) bool {
	m := head.FindSubmatch(raw[:min(len(raw), headSize)])
	if m == nil || string(m[2]) != strconv.FormatInt(c.id, 10) {
		return false
	}
	switch string(m[1]) {
	case "return", "raise":
		return !c.answered
	case "late", "ended":
		return !long
	}
	return false
}

// headReader is a reader that can return its next bytes twice.
type headReader struct {
	io.Reader
	head []byte
}

// peek reads the next n bytes into head. Read returns them again.
func (h *headReader) peek(n int) error {
	h.head = make([]byte, n)
	_, err := io.ReadFull(h.Reader, h.head)
	h.Reader = io.MultiReader(bytes.NewReader(h.head), h.Reader)
	return err
}
