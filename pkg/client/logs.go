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

// LogEvent is one thing that is told of a job whose logs are watched.
type LogEvent struct {
	Kind string // state, stdout, stderr, restart (another attempt begins from nothing) or end
	api.LogState
	api.LogPart
}

// Bytes are what a program wrote.
func (e LogEvent) Bytes() []byte {
	if e.Base64 == "" {
		return []byte(e.Text)
	}
	raw, _ := base64.StdEncoding.DecodeString(e.Base64) // what the server made
	return raw
}

// Logs yields what a job writes while it does, to its end, which is the last event. A connection that
// breaks is made anew, and goes on where it was.
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

// readLog yields what a stream says, and notes the id of the last event; over is true when nothing is left
// to say, or nobody listens.
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

// Link asks for an address of one file of a job that is good without a key, for a time.
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
