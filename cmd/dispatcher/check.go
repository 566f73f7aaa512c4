package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/assay-run/assay/internal/dispatcher/httpapi"
	"github.com/assay-run/assay/pkg/job"
)

// checking has the flags of `dispatcher check`: the test of an installation, for an image without a
// command line.
type checking struct {
	URL      string         `arg:"" help:"URL of the API, such as http://assay."`
	Job      string         `name:"job" placeholder:"JSON" help:"Job to run (default: only check that the API is ready)."`
	Token    httpapi.Secret `name:"token" env:"ASSAY_TOKEN" help:"API token for the job."`
	Patience time.Duration  `name:"patience" default:"4m" help:"Time to wait for the API and the job."`

	key string
}

// check runs `dispatcher check`, and reports whether the arguments request it.
func check(ctx context.Context, args []string, out io.Writer) (asked bool, err error) {
	var c checking
	asked, ready, err := command("check", aboutCheck, args, &c, out)
	if !ready {
		return asked, err
	}
	c.key = "check-" + rand.Text()
	ctx, cancel := context.WithTimeout(ctx, c.Patience)
	defer cancel()
	for {
		_, _, err := c.ask(ctx, http.MethodGet, "/readyz", "")
		if err == nil {
			break
		}
		select {
		case <-ctx.Done():
			return true, err
		case <-time.After(time.Second):
		}
	}
	if c.Job == "" {
		_, err = fmt.Fprintln(out, "the API is ready")
		return true, err
	}
	// The same key: if the job has not ended within the wait, request it again without another run.
	var raw []byte
	for status := http.StatusAccepted; status == http.StatusAccepted; {
		if status, raw, err = c.ask(ctx, http.MethodPost, "/v1/run?wait=20s", c.Job); err != nil {
			return true, err
		}
	}
	var r struct {
		Outcome job.Outcome `json:"outcome"`
		Message string      `json:"message"`
		Stdout  struct {
			Text string `json:"text"`
		} `json:"stdout"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return true, fmt.Errorf("the result: %w", err)
	}
	if r.Outcome != job.Succeeded {
		return true, fmt.Errorf("the job ended as %s: %s", r.Outcome, r.Message)
	}
	_, err = fmt.Fprintf(out, "a job ran: %s\n", strings.TrimSpace(r.Stdout.Text))
	return true, err
}

func (c *checking) ask(ctx context.Context, method, path, body string) (status int, raw []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.URL, "/")+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+string(c.Token))
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", c.key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	raw, err = io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err == nil && resp.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s: %.500s", method, path, resp.Status, bytes.TrimSpace(raw))
	}
	return resp.StatusCode, raw, err
}
