package grade

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/assay-run/assay/internal/boundedjson"
	"github.com/assay-run/assay/internal/frame"
	"github.com/assay-run/assay/internal/worker/grade/value"
	"github.com/assay-run/assay/pkg/runtime/toll"
)

// MaxFrame is the most bytes of JSON in one frame.
const MaxFrame = 8 << 20

// frameLimits has room for the largest value, which is relayed unchanged. Frames of up to 64 KiB
// are counted only on arrival.
var frameLimits = frame.Limits{Bytes: MaxFrame, Free: 64 << 10, Values: value.Limits}

// message is any message from a sandbox. Fields that an op does not use are empty.
type message struct {
	Op        string          `json:"op"`
	ID        int64           `json:"id"`
	Stage     string          `json:"stage"`
	Value     json.RawMessage `json:"value"`
	Exception *exception      `json:"exception"` // of the solution; in a verdict, the exception that ended the test
	Problem   string          `json:"problem"`
	Timeout   bool            `json:"timeout"`
	Signal    int             `json:"signal"`
	Code      int             `json:"code"`
	Calls     int             `json:"calls"`
	Asked     bool            `json:"asked"` // the check used the solution
	verdict

	raw []byte // the whole frame, to relay
}

// exception is a sandbox's report of an exception.
type exception struct {
	Type    string   `json:"type"`
	MRO     []string `json:"mro"`
	Message string   `json:"message"`
	Line    int      `json:"line"`
	Text    string   `json:"text"`

	Traceback string `json:"traceback"` // with the solution's frames only
}

// verdict is the check's report of one test.
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
	Function   string  `json:"function"` // the called function, if it is one of job.Tests.Functions
	Got        string  `json:"got"`
	Expected   string  `json:"expected"`
	Refused    string  `json:"refused"` // the solution's unsupported action

	SelfReported bool   `json:"self_reported"`
	Skipped      string `json:"skipped"` // reason for the skip
}

// frameReader reads frames from a sandbox. It charges the work of decoding them to toll.
type frameReader struct{ toll *toll.Meter }

// next reads one frame. The error wraps frame.ErrProtocol if the frame is too large or not JSON.
// Any other error, including an end within the frame, means that the program is gone.
func (f frameReader) next(r io.Reader) (m *message, err error) {
	raw, err := frame.Read(r, frameLimits, nil)
	if err != nil {
		return nil, noCut(err)
	}
	f.toll.Measure(func() { m, err = decodeFrame(raw) })
	return m, err
}

// noCut returns io.ErrUnexpectedEOF for an end within a frame: the program was killed during the
// write.
func noCut(err error) error {
	if errors.Is(err, frame.ErrCut) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func decodeFrame(raw []byte) (*message, error) {
	f := &message{raw: raw}
	if err := boundedjson.Unmarshal(raw, f, frameLimits.Values); err != nil {
		return nil, fmt.Errorf("%w: a frame that is not JSON, or too much of it", frame.ErrProtocol)
	}
	return f, nil
}
