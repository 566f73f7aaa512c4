package files

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/object"
)

// record has the fields of a result that this package reads.
type record struct {
	State   job.State   `json:"state"`
	Outcome job.Outcome `json:"outcome"`
	outputs
	Steps []outputs `json:"steps"`
}

type outputs struct {
	Stdout job.Output `json:"stdout"`
	Stderr job.Output `json:"stderr"`
}

// replay sends the output of a finished job that the viewer has not seen, and then the end.
func (v *viewer) replay(ctx context.Context, lease job.Lease) error {
	if v.lease != 0 && lease != 0 && v.lease != lease { // the viewer saw an earlier attempt
		v.place = place{lease: lease}
		if err := v.event("restart", struct{}{}); err != nil {
			return err
		}
	}
	raw, err := v.Store.Result(ctx, v.tenant, v.id)
	if errors.Is(err, job.ErrNotFound) { // the job has ended and its record follows soon
		if _, err := v.pause(ctx); err != nil {
			return err
		}
		raw, err = v.Store.Result(ctx, v.tenant, v.id)
	}
	if err != nil {
		return fmt.Errorf("read result: %w", err)
	}
	var res record
	if err := json.Unmarshal(raw, &res); err != nil {
		return fmt.Errorf("decode the recorded result of job %s: %w", v.id, err)
	}
	all := res.Steps
	if len(all) == 0 {
		all = []outputs{res.outputs}
	}
	for v.step < len(all) {
		number := v.step
		if len(res.Steps) == 0 {
			number = object.WholeOutput
		}
		if err := v.rest(ctx, "stdout", number, &v.out, all[v.step].Stdout); err != nil {
			return err
		}
		if err := v.rest(ctx, "stderr", number, &v.err, all[v.step].Stderr); err != nil {
			return err
		}
		if v.step+1 >= len(all) {
			break
		}
		v.step, v.out, v.err = v.step+1, 0, 0
	}
	return v.event("end", api.LogState{State: res.State, Outcome: res.Outcome})
}

// rest sends the part of one output that the viewer has not seen.
func (v *viewer) rest(ctx context.Context, stream string, step int, at *int64, o job.Output) error {
	exact := o.Exact()
	var text io.ReadSeeker = bytes.NewReader(exact)
	size := int64(len(exact))
	if o.Stored != nil {
		body, err := v.Files.OpenOutput(ctx, v.tenant, v.id, stream, step, o.Stored)
		if err != nil {
			return fmt.Errorf("open %s of job %s: %w", stream, v.id, err)
		}
		defer body.Close()
		text, size = body, o.Stored.Bytes
	}
	from := begin(*at, size, o)
	if _, err := text.Seek(from, io.SeekStart); err != nil {
		return fmt.Errorf("read %s of job %s: %w", stream, v.id, err)
	}
	buf := make([]byte, most)
	for {
		n, err := io.ReadFull(text, buf)
		data := buf[:n]
		if err == nil { // more follows
			if data = whole(data); len(data) == 0 {
				data = buf[:n]
			}
			if _, serr := text.Seek(int64(len(data)-n), io.SeekCurrent); serr != nil {
				return fmt.Errorf("read %s of job %s: %w", stream, v.id, serr)
			}
		} else if err != io.EOF && err != io.ErrUnexpectedEOF {
			return fmt.Errorf("read %s of job %s: %w", stream, v.id, err)
		}
		if len(data) > 0 {
			p := logPart(from, 0, v.step, data)
			p.Cut = o.Truncated
			from += int64(len(data))
			*at = from
			if err := v.event(stream, p); err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
	}
}

// begin returns the offset of the first unseen byte in a recorded output of size bytes, when the viewer has seen at
// bytes of the stream. A truncated output has the head and the tail of the stream, each half of size.
func begin(at, size int64, o job.Output) int64 {
	if o.Truncated && at > size/2 {
		return min(max(size-max(o.Bytes-at, 0), size/2), size)
	}
	return min(at, size)
}
