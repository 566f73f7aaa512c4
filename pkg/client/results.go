package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/url"
	"strings"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
)

// Results yields the results of a batch in the order of their visibility, each exactly once, as the
// JSON of a job.Result. With follow it waits for further results until the batch is done or ctx
// ends. Otherwise it ends at the last existing one. It ends after the first error.
//
// With fields, such as id and outcome, each result has only these. Most of a result is its
// enforcement.
func (c *Client) Results(ctx context.Context, batch job.ID, follow bool, fields ...string) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		cursor := "0"
		if follow {
			defer c.keepLease(ctx, batch)()
		}
		for {
			p, err := c.page(ctx, batch, cursor, follow, fields)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, raw := range p.results {
				if !yield(raw, nil) {
					return
				}
			}
			if p.complete || !follow && len(p.results) == 0 {
				return
			}
			cursor = p.cursor
		}
	}
}

type page struct {
	results  []json.RawMessage
	cursor   string
	complete bool
}

// page reads one page completely before its use. After a broken connection it requests the page
// again.
func (c *Client) page(ctx context.Context, batch job.ID, after string, follow bool, fields []string) (p page, err error) {
	q := only(url.Values{}, fields)
	if follow {
		q = only(waiting(turn), fields)
	}
	q.Set("after", after)
	q.Set("limit", "500")
	for try := 0; ; try++ {
		resp, err := c.do(ctx, get(batchPath(batch)+"/results", q))
		if err != nil {
			return page{}, err
		}
		p.cursor = resp.Header.Get(api.HeaderCursor)
		p.complete = resp.Header.Get(api.HeaderComplete) == "true"
		p.results, err = readLines(resp.Body)
		_ = resp.Body.Close()
		if err == nil {
			return p, nil
		}
		if ctx.Err() != nil {
			return page{}, ctx.Err()
		}
		if try == 3 {
			return page{}, fmt.Errorf("results of batch %s: %w: %w", batch, job.ErrUnavailable, err)
		}
	}
}

func readLines(r io.Reader) ([]json.RawMessage, error) {
	body, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	var out []json.RawMessage
	for line := range bytes.Lines(body) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			return nil, io.ErrUnexpectedEOF
		}
		out = append(out, bytes.TrimSpace(line))
	}
	return out, nil
}

// Progress yields a batch after each change, and finally when it is done. It reconnects after an
// error.
func (c *Client) Progress(ctx context.Context, id job.ID) iter.Seq2[*job.Batch, error] {
	return func(yield func(*job.Batch, error) bool) {
		defer c.keepLease(ctx, id)()
		for {
			resp, err := c.do(ctx, get(batchPath(id)+"/events", nil))
			if err != nil {
				yield(nil, err)
				return
			}
			over := readEvents(resp.Body, yield)
			_ = resp.Body.Close()
			if over {
				return
			}
			if ctx.Err() != nil {
				yield(nil, ctx.Err())
				return
			}
		}
	}
}

// readEvents yields the events of a stream. over is true after the last event, or when the caller
// stops.
func readEvents(r io.Reader, yield func(*job.Batch, error) bool) (over bool) {
	lines := bufio.NewReader(r)
	kind := ""
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return false
		}
		line = strings.TrimRight(line, "\r\n")
		if k, ok := strings.CutPrefix(line, "event: "); ok {
			kind = k
			continue
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		var b job.Batch
		if err := json.Unmarshal([]byte(data), &b); err != nil {
			yield(nil, errors.Join(errors.New("read event"), err))
			return true
		}
		if !yield(&b, nil) || kind == "done" {
			return true
		}
	}
}
