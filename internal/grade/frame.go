package grade

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/assay-run/assay/internal/boundedjson"
)

// MaxFrame is the most that one frame may hold, in bytes of JSON.
const MaxFrame = 8 << 20

// frameLimits leave room for the largest value, which is passed on as it is.
var frameLimits = boundedjson.Limits{Values: 4 * maxNodes, Depth: 2 * maxDepth}

// frameFree is how long a frame may be that is counted when it is there, in bytes.
const frameFree = 64 << 10

var errProtocol = errors.New("breaks the protocol")

// frame is any message from a sandbox. What an op does not use is empty.
type frame struct {
	Op        string          `json:"op"`
	ID        int             `json:"id"`
	Stage     string          `json:"stage"`
	Value     json.RawMessage `json:"value"`
	Exception *exception      `json:"exception"` // of the solution; of a verdict, the one that the test ended with
	Problem   string          `json:"problem"`
	Timeout   bool            `json:"timeout"`
	Signal    int             `json:"signal"`
	Code      int             `json:"code"`
	Calls     int             `json:"calls"`
	Asked     bool            `json:"asked"` // the check asked the solution something
	verdict

	raw []byte // the whole, to relay
}

// exception is what a sandbox says about one.
type exception struct {
	Type    string   `json:"type"`
	MRO     []string `json:"mro"`
	Message string   `json:"message"`
	Line    int      `json:"line"`
	Text    string   `json:"text"`

	Traceback string `json:"traceback"` // with the solution's frames only
}

// verdict is what the check's sandbox says about one test.
type verdict struct {
	Name       string  `json:"name"`
	Passed     bool    `json:"passed"`
	WallMS     float64 `json:"wall_ms"`
	Type       string  `json:"type"`
	Message    string  `json:"message"`
	Text       string  `json:"text"`
	Line       int     `json:"line"`
	BySolution bool    `json:"by_solution"`
	Own        bool    `json:"own"` // it failed by itself: no solution could have passed it
	Call       string  `json:"call"`
	Function   string  `json:"function"` // that was called, if it is one of job.Tests.Functions
	Got        string  `json:"got"`
	Expected   string  `json:"expected"`
	Refused    string  `json:"refused"` // what the solution did that no check takes

	SelfReported bool `json:"self_reported"`
}

// readFrame reads one frame. Errors of the reader are passed on; a frame that is
// none wraps errProtocol.
func readFrame(r io.Reader) (*frame, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > MaxFrame {
		return nil, fmt.Errorf("%w: a frame of %d bytes", errProtocol, n)
	}
	// An enemy who announces much and sends little does not make us allocate it, and
	// one who sends too many values has us hold no more than shows that.
	raw, err := boundedjson.ReadWithin(r, int(n), frameFree, frameLimits)
	if errors.Is(err, boundedjson.ErrLimit) {
		return nil, fmt.Errorf("%w: a frame of %d bytes with too many values", errProtocol, n)
	}
	if err != nil {
		return nil, err
	}
	f := &frame{raw: raw}
	if err := boundedjson.Unmarshal(raw, f, frameLimits); err != nil {
		return nil, fmt.Errorf("%w: a frame that is not JSON, or too much of it", errProtocol)
	}
	return f, nil
}

func writeRaw(w io.Writer, raw []byte) error {
	_, err := w.Write(append(binary.BigEndian.AppendUint32(make([]byte, 0, len(raw)+4), uint32(len(raw))), raw...))
	return err
}
