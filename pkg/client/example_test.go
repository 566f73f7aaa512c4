package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

// A job is submitted, and waited for. What became of the program is data: an error means that Assay failed.
func ExampleClient() {
	url, stop := exampleFleet()
	defer stop()
	ctx := context.Background()

	fleet, err := client.New(url, client.WithToken("a token"))
	if err != nil {
		log.Fatal(err)
	}
	accepted, err := fleet.Submit(ctx, job.Spec{
		Program: job.Program{Python: &job.Python{Code: "print(6 * 7)"}},
		Policy:  json.RawMessage(`{"wall": "10s", "memory": "256Mi"}`),
	})
	if err != nil {
		log.Fatal(err)
	}
	result, err := fleet.Result(ctx, accepted.ID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: %s", result.Outcome, result.Stdout.Text)
	// Output: succeeded: 42
}

// Both in one call.
func ExampleClient_Run() {
	url, stop := exampleFleet()
	defer stop()

	fleet, err := client.New(url)
	if err != nil {
		log.Fatal(err)
	}
	result, err := fleet.Run(context.Background(), job.Spec{Program: job.Program{Command: &job.Command{Argv: []string{"echo", "42"}}}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(result.Stdout.Text)
	// Output: 42
}

// Two solutions are graded as one batch, and each verdict is there as soon as it is known.
func ExampleClient_Results() {
	url, stop := exampleFleet()
	defer stop()
	ctx := context.Background()

	fleet, err := client.New(url)
	if err != nil {
		log.Fatal(err)
	}
	cases := []job.Case{{Args: []json.RawMessage{json.RawMessage("1"), json.RawMessage("2")}, Expected: json.RawMessage("3")}}
	solutions := map[string]string{"right": "a + b", "wrong": "a - b"}
	batch, err := fleet.SubmitSpecs(ctx, client.BatchOptions{Name: "rewards", Lease: time.Minute}, func(yield func(job.Spec) bool) {
		for name, body := range solutions {
			tests := &job.Tests{Code: "def add(a, b): return " + body, Function: "add", Cases: cases}
			if !yield(job.Spec{Name: name, Program: job.Program{Tests: tests}}) {
				return
			}
		}
	})
	if err != nil {
		log.Fatal(err)
	}
	for raw, err := range fleet.Results(ctx, batch.ID, true, "name", "outcome", "tests") {
		if err != nil {
			log.Fatal(err)
		}
		var result job.Result
		if err := json.Unmarshal(raw, &result); err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %s, score %v\n", result.Name, result.Outcome, *result.Tests.Score)
	}
	// Output:
	// right: succeeded, score 1
	// wrong: failed, score 0
}

// A session keeps its variables from one execution to the next, and a fork of it has a copy of them.
func ExampleClient_CreateSession() {
	url, stop := exampleFleet()
	defer stop()
	ctx := context.Background()

	fleet, err := client.New(url)
	if err != nil {
		log.Fatal(err)
	}
	session, err := fleet.CreateSession(ctx, job.SessionSpec{})
	if err != nil {
		log.Fatal(err)
	}
	if err := fleet.SetVariable(ctx, session.ID, "x", 20); err != nil {
		log.Fatal(err)
	}
	fork, err := fleet.ForkSession(ctx, session.ID)
	if err != nil {
		log.Fatal(err)
	}
	for _, id := range []job.ID{session.ID, fork.ID} {
		done, err := fleet.Execute(ctx, id, api.ExecuteRequest{Code: "x + 1"})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(done.Value.Repr)
		if _, err := fleet.CloseSession(ctx, id); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// 21
	// 21
}

// Code in a session calls a function that this program answers. AnswerCalls ends with the session.
func ExampleClient_AnswerCalls() {
	url, stop := exampleFleet()
	defer stop()
	ctx := context.Background()

	fleet, err := client.New(url)
	if err != nil {
		log.Fatal(err)
	}
	session, err := fleet.CreateSession(ctx, job.SessionSpec{
		Functions: []string{"ask"}, Policy: json.RawMessage(`{"callbacks": {"allow": ["ask"], "max_calls": 10}}`),
	})
	if err != nil {
		log.Fatal(err)
	}
	// Beside it, fleet.Execute runs the code that calls ask.
	err = fleet.AnswerCalls(ctx, session.ID, map[string]client.HostFunction{
		"ask": func(_ context.Context, call job.HostCall) (any, error) {
			fmt.Printf("asked with %s\n", call.Args)
			return "an answer", nil
		},
	})
	fmt.Println(err)
	// Output:
	// asked with ["a question"]
	// <nil>
}

// The mechanism of each field of a policy is known before anything runs.
func ExampleClient_Explain() {
	url, stop := exampleFleet()
	defer stop()

	fleet, err := client.New(url)
	if err != nil {
		log.Fatal(err)
	}
	explained, err := fleet.Explain(context.Background(), json.RawMessage(`{"memory": "256Mi"}`))
	if err != nil {
		log.Fatal(err)
	}
	for _, row := range explained.Enforcement {
		fmt.Printf("%s %s: %s (%s)\n", row.Capability, row.Applied, row.Mechanism, row.Level)
	}
	// Output: memory 256Mi: cgroup memory (kernel)
}

// exampleFleet stands in for a fleet: it knows the answers to the examples alone.
func exampleFleet() (url string, stop func()) {
	answers := map[string]string{
		"POST /v1/jobs":                  `{"id": "1", "state": "queued"}`,
		"GET /v1/jobs/1/result":          `{"id": "1", "outcome": "succeeded", "stdout": {"text": "42\n"}}`,
		"POST /v1/run":                   `{"id": "1", "outcome": "succeeded", "stdout": {"text": "42\n"}}`,
		"POST /v1/batches":               `{"id": "2", "name": "rewards"}`,
		"POST /v1/batches/2/keepalive":   `{"id": "2"}`,
		"POST /v1/sessions":              `{"id": "3", "state": "live"}`,
		"POST /v1/sessions/3/fork":       `{"id": "4", "state": "live", "parent": "3"}`,
		"PUT /v1/sessions/3/variables/x": `{}`,
		"POST /v1/sessions/3/execute":    `{"outcome": "succeeded", "value": {"type": "int", "repr": "21"}}`,
		"POST /v1/sessions/4/execute":    `{"outcome": "succeeded", "value": {"type": "int", "repr": "21"}}`,
		"DELETE /v1/sessions/3":          `{"id": "3", "state": "ended"}`,
		"DELETE /v1/sessions/4":          `{"id": "4", "state": "ended"}`,
		"POST /v1/policies/explain":      `{"enforcement": [{"capability": "memory", "applied": "256Mi", "mechanism": "cgroup memory", "level": "kernel"}]}`,
	}
	answered := make(chan struct{}, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch what := r.Method + " " + r.URL.Path; what {
		case "GET /v1/batches/2/results":
			w.Header().Set("Content-Type", api.NDJSON)
			w.Header().Set(api.HeaderComplete, "true")
			_, _ = io.WriteString(w, `{"name": "right", "outcome": "succeeded", "tests": {"score": 1}}`+"\n"+
				`{"name": "wrong", "outcome": "failed", "tests": {"score": 0}}`+"\n")
		case "GET /v1/sessions/3/events":
			_, _ = io.WriteString(w, "event: call\ndata: {\"call\": 1, \"name\": \"ask\", \"args\": [\"a question\"]}\n\n")
			w.(http.Flusher).Flush()
			<-answered
			_, _ = io.WriteString(w, "event: ended\ndata: {}\n\n")
		case "POST /v1/sessions/3/answers":
			answered <- struct{}{}
		default:
			w.Header().Set("Content-Type", api.JSON)
			_, _ = io.Copy(w, strings.NewReader(answers[what]))
		}
	}))
	return srv.URL, srv.Close
}
