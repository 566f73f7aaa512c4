package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// fusionTimeout is longer than any of these requests may wait in a fleet.
const fusionTimeout = 60 * time.Second

// fusionQuestion is a program and its expected output.
type fusionQuestion struct{ body, prints string }

// askFusion returns a request as verl sends it, with the same limit for compiling as for running, in seconds.
func askFusion(code, prints string, limit float64) fusionQuestion {
	return askFusionWith(code, "", prints, limit)
}

// askFusionWith is askFusion for a program with input.
func askFusionWith(code, stdin, prints string, limit float64) fusionQuestion {
	body, _ := json.Marshal(map[string]any{ // strings and numbers only
		"compile_timeout": limit, "run_timeout": limit, "code": code, "stdin": stdin, "memory_limit_MB": 256, "language": "python",
		"files": map[string]string{}, "fetch_files": []string{},
	})
	return fusionQuestion{string(body), prints}
}

// fusionAnswers counts the answers.
type fusionAnswers struct {
	OK, Late, Wrong, Other int       // right; 504; an undeserved verdict; anything else
	Strange                string    // the first wrong or other answer
	MS                     []float64 // of each right answer, in milliseconds
	Took                   time.Duration
}

// runFusion sends a question from several clients to the server at url, repeatedly for d.
func runFusion(ctx context.Context, url string, q fusionQuestion, clients int, d time.Duration) (all fusionAnswers, err error) {
	c := &http.Client{Timeout: fusionTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	defer c.CloseIdleConnections()
	var mu sync.Mutex
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	began := time.Now()
	for range clients {
		wg.Go(func() {
			for time.Since(began) < d && ctx.Err() == nil && failed.Load() == nil {
				sent := time.Now()
				status, body, err := sendFusion(ctx, c, url, q)
				if err != nil {
					failed.CompareAndSwap(nil, &err)
					return
				}
				mu.Lock()
				all.count(q, status, body, float64(time.Since(sent).Microseconds())/1000)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	all.Took = time.Since(began)
	if e := failed.Load(); e != nil {
		return all, fmt.Errorf("ask in the format of SandboxFusion: %w", *e)
	}
	return all, ctx.Err()
}

// allFusion sends questions at once, and reports whether each answer was right.
func allFusion(ctx context.Context, url string, questions []fusionQuestion) (right bool, err error) {
	var mu sync.Mutex
	var all fusionAnswers
	var wg sync.WaitGroup
	for _, q := range questions {
		wg.Go(func() {
			status, body, sendErr := sendFusion(ctx, fusionClient, url, q)
			mu.Lock()
			defer mu.Unlock()
			if sendErr != nil {
				err = fmt.Errorf("ask in the format of SandboxFusion: %w", sendErr)
				return
			}
			all.count(q, status, body, 0)
		})
	}
	wg.Wait()
	return all.OK == len(questions), err
}

// fusionClient keeps the connections of allFusion open, as clients do.
var fusionClient = &http.Client{Timeout: fusionTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: 256}}

func sendFusion(ctx context.Context, c *http.Client, url string, q fusionQuestion) (status int, body []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/sandboxfusion/run_code", strings.NewReader(q.body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	return resp.StatusCode, body, err
}

// count judges one answer.
func (a *fusionAnswers) count(q fusionQuestion, status int, body []byte, ms float64) {
	var got struct {
		Status    string
		RunResult struct{ Stdout string } `json:"run_result"`
	}
	switch {
	case status == http.StatusGatewayTimeout:
		a.Late++
		return
	case status != http.StatusOK || json.Unmarshal(body, &got) != nil || got.Status == "SandboxError":
		a.Other++
	case got.Status != "Success" || got.RunResult.Stdout != q.prints:
		a.Wrong++
	default:
		a.OK++
		a.MS = append(a.MS, ms)
		return
	}
	if a.Strange == "" {
		a.Strange = fmt.Sprintf("%d %.500s", status, body)
	}
}
