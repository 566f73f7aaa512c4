// Command sessioncallbacks runs a session whose code calls a host function of this program, as an agent's code calls a
// model.
//
//	go run ./examples/sessioncallbacks http://127.0.0.1:8080
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

// program calls the function for three texts at once. It can import and open only what its policy permits.
const program = `
from concurrent.futures import ThreadPoolExecutor

with ThreadPoolExecutor() as pool:
    answers = list(pool.map(summarize, texts))
answers
`

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: sessioncallbacks URL")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := run(ctx, os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, url string) error {
	fleet, err := client.New(url, client.WithToken(os.Getenv("ASSAY_TOKEN")))
	if err != nil {
		return err
	}
	session, err := fleet.CreateSession(ctx, job.SessionSpec{
		Functions: []string{"summarize"},
		Policy:    json.RawMessage(`{"callbacks": {"allow": ["summarize"], "max_calls": 3}}`),
	})
	if err != nil {
		return err
	}
	answered := make(chan error, 1)
	go func() {
		answered <- fleet.AnswerCalls(ctx, session.ID, map[string]client.HostFunction{"summarize": summarize})
	}()
	if err := fleet.SetVariable(ctx, session.ID, "texts", []string{"one two three", "four five", "six"}); err != nil {
		return err
	}
	for _, code := range []string{program, "summarize('once too often')"} {
		if err := execute(ctx, fleet, session.ID, code); err != nil {
			return err
		}
	}
	if _, err := fleet.CloseSession(ctx, session.ID); err != nil {
		return err
	}
	return <-answered // it ends with the session
}

// summarize is the host function: in an agent, a request to a model. Calls run concurrently.
func summarize(_ context.Context, call job.HostCall) (any, error) {
	var args []string
	if err := json.Unmarshal(call.Args, &args); err != nil || len(args) != 1 {
		return nil, fmt.Errorf("summarize takes one text") // raised in the session
	}
	time.Sleep(100 * time.Millisecond)
	return fmt.Sprintf("%d words", len(strings.Fields(args[0]))), nil
}

// execute prints the result of a snippet. A failed snippet is data, not an error of execute.
func execute(ctx context.Context, fleet *client.Client, id job.ID, code string) error {
	done, err := fleet.Execute(ctx, id, api.ExecuteRequest{Code: code})
	switch {
	case err != nil:
		return err
	case done.Exception != nil:
		fmt.Printf("%s after %d calls: %s: %s\n", done.Outcome, done.Calls, done.Exception.Type, done.Exception.Message)
	case done.Value != nil:
		fmt.Printf("%s after %d calls: %s\n", done.Outcome, done.Calls, done.Value.Repr)
	default:
		fmt.Printf("%s: %s\n", done.Outcome, done.Message)
	}
	return nil
}
