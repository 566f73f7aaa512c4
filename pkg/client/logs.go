package client

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/job"
)

// LogEvent is one event in the logs of a job.
type LogEvent struct {
	Kind string // state, stdout, stderr, restart (a new attempt starts from the beginning) or end
	api.LogState
	api.LogPart
}

// Bytes returns the program's output.
func (e LogEvent) Bytes() []byte {
	if e.Base64 == "" {
		return []byte(e.Text)
	}
	raw, _ := base64.StdEncoding.DecodeString(e.Base64) // encoded by the server
	return raw
}

// Logs yields the output of a job while it runs. The last event is its end. Logs reconnects after
// an error and continues at the same position.
func (c *Client) Logs(ctx context.Context, id job.ID) iter.Seq2[LogEvent, error] {
	return func(yield func(LogEvent, error) bool) {
		last := ""
		for {
			rq := get(jobPath(id)+"/logs", nil)
			if last != "" {
				rq.header = http.Header{"Last-Event-Id": {last}}
			}
			resp, err := c.do(ctx, rq)
			if err != nil {
				yield(LogEvent{}, err)
				return
			}
			over := readLog(resp.Body, &last, yield)
			_ = resp.Body.Close()
			if over {
				return
			}
			if ctx.Err() != nil {
				yield(LogEvent{}, ctx.Err())
				return
			}
		}
	}
}

// readLog yields the events of a stream and stores the id of the last one. over is true after the
// last event, or when the caller stops.
func readLog(r io.Reader, last *string, yield func(LogEvent, error) bool) (over bool) {
	lines := bufio.NewReader(r)
	e, id := LogEvent{}, ""
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return false
		}
		name, value, _ := strings.Cut(strings.TrimRight(line, "\r\n"), ": ")
		switch name {
		case "event":
			e = LogEvent{Kind: value}
		case "id":
			id = value
		case "data":
			var into any = &e.LogState
			if e.Kind == "stdout" || e.Kind == "stderr" {
				into = &e.LogPart
			}
			if err := json.Unmarshal([]byte(value), into); err != nil {
				yield(LogEvent{}, fmt.Errorf("read event: %w", err))
				return true
			}
			if *last = id; !yield(e, nil) || e.Kind == "end" {
				return true
			}
		}
	}
}

// Link requests a temporary URL of one file of a job. It works without a key.
func (c *Client) Link(ctx context.Context, id job.ID, r api.LinkRequest) (l api.Link, err error) {
	rq, err := post(jobPath(id)+"/links", nil, r)
	if err != nil {
		return l, err
	}
	if _, err = c.json(ctx, rq, &l); err == nil {
		l.URL = c.base.String() + l.URL
	}
	return l, err
}
