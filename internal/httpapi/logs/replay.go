package logs

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

// record is what is read of a result here.
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

// replay tells what the viewer has not seen of a job that is over, from its record, and then its end.
func (v *viewer) replay(ctx context.Context, lease job.Lease) error {
	if v.lease != 0 && lease != 0 && v.lease != lease { // what was seen is of an attempt before the last
		v.place = place{lease: lease}
		if err := v.event("restart", struct{}{}); err != nil {
			return err
		}
	}
	raw, err := v.Store.Result(ctx, v.tenant, v.id)
	if errors.Is(err, job.ErrNotFound) { // it is over, and its record follows in a moment
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

// rest tells what the viewer has not seen of one output.
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

// begin is where what a viewer has not seen begins in what is kept of an output of size bytes, when it has seen
// at bytes of what was written. What was cut has its head and its tail, of half of it each.
func begin(at, size int64, o job.Output) int64 {
	if o.Truncated && at > size/2 {
		return min(max(size-max(o.Bytes-at, 0), size/2), size)
	}
	return min(at, size)
}
