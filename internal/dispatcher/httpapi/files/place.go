package files

import (
	"encoding/base64"
	"fmt"
	"unicode/utf8"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
)

// place is the position of a viewer: the attempt, the step, and the offsets in its streams.
type place struct {
	lease    job.Lease
	step     int
	out, err int64
}

// String returns the place as the id of an event.
func (p place) String() string { return fmt.Sprintf("%d.%d.%d.%d", p.lease, p.step, p.out, p.err) }

// parsePlace parses the id of an event. Without an id, the place is the beginning.
func parsePlace(text string) (p place, err error) {
	if text == "" {
		return p, nil
	}
	n, err := fmt.Sscanf(text, "%d.%d.%d.%d", &p.lease, &p.step, &p.out, &p.err)
	if err != nil || n != 4 || p.String() != text || p.lease < 0 || p.step < 0 || p.step >= job.MaxSteps || p.out < 0 || p.err < 0 {
		return place{}, job.Invalid("Last-Event-ID", "%.60q is not the id of an event of these logs", text)
	}
	return p, nil
}

// whole returns data without an incomplete character at its end.
func whole(data []byte) []byte {
	for i := len(data) - 1; i >= 0 && i >= len(data)-utf8.UTFMax+1; i-- {
		if utf8.RuneStart(data[i]) {
			if !utf8.FullRune(data[i:]) {
				return data[:i]
			}
			break
		}
	}
	return data
}

// logPart returns a part of a stream for an event.
func logPart(at, missed int64, step int, data []byte) api.LogPart {
	out := api.LogPart{Offset: at, Missed: missed, Step: step}
	if utf8.Valid(data) {
		out.Text = string(data)
	} else {
		out.Base64 = base64.StdEncoding.EncodeToString(data)
	}
	return out
}
