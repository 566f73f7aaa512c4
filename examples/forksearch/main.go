// Command forksearch searches over program states. Each branch is a fork of a live session, so the steps to a state
// (imports, data, files) run only once.
//
//	go run ./examples/forksearch http://127.0.0.1:8080
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

// The problem: with these moves, bring n from 1 to 50. In an agent, moves are edits of a model, and the score is a test
// result.
const (
	setUp = "n, target = 1, 50"
	score = "abs(target - n)"
	width = 3  // states that are kept after each step
	steps = 10 // at most
)

var moves = []string{"n *= 2", "n += 3", "n -= 1"}

// state is a live session and the moves to it.
type state struct {
	session job.ID
	path    []string
	score   int
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: forksearch URL")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
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
	root, err := fleet.CreateSession(ctx, job.SessionSpec{Policy: []byte(`{"memory": "256Mi", "wall": "5s"}`)})
	if err != nil {
		return err
	}
	s := search{fleet: fleet}
	beam := []state{{session: root.ID}}
	defer func() { s.close(context.WithoutCancel(ctx), beam) }()
	if _, err := s.evaluate(ctx, root.ID, setUp); err != nil {
		return err
	}
	for step := range steps {
		next, err := s.branch(ctx, beam)
		s.close(ctx, beam)
		if beam = next; err != nil {
			return err
		}
		fmt.Printf("step %d: %d away\n", step+1, beam[0].score)
		if beam[0].score == 0 {
			fmt.Printf("found with %d forks: %s\n", s.forks, strings.Join(beam[0].path, "; "))
			return nil
		}
	}
	return fmt.Errorf("nothing found in %d steps", steps)
}

type search struct {
	fleet *client.Client
	forks int
}

// branch tries every move in a fork of each state, returns the best states and closes the others. With an error, it returns
// the states to close.
func (s *search) branch(ctx context.Context, beam []state) (next []state, err error) {
	for _, from := range beam {
		for _, move := range moves {
			fork, err := s.fleet.ForkSession(ctx, from.session)
			if err != nil {
				return next, err
			}
			s.forks++
			to := state{session: fork.ID, path: append(slices.Clone(from.path), move)}
			next = append(next, to)
			value, err := s.evaluate(ctx, fork.ID, move+"\n"+score)
			if err != nil {
				return next, err
			}
			if next[len(next)-1].score, err = strconv.Atoi(value); err != nil {
				return next, err
			}
		}
	}
	slices.SortStableFunc(next, func(a, b state) int { return a.score - b.score })
	keep := min(width, len(next))
	s.close(ctx, next[keep:])
	return next[:keep], nil
}

// evaluate executes a snippet and returns the value of its last line.
func (s *search) evaluate(ctx context.Context, id job.ID, code string) (string, error) {
	done, err := s.fleet.Execute(ctx, id, api.ExecuteRequest{Code: code})
	if err != nil {
		return "", err
	}
	if done.Outcome != job.Succeeded {
		return "", fmt.Errorf("%s: %s", done.Outcome, done.Stderr.Text)
	}
	if done.Value == nil {
		return "", nil
	}
	return done.Value.Repr, nil
}

// close ends sessions to free their memory. A forgotten session would end by its idle timeout.
func (s *search) close(ctx context.Context, states []state) {
	for _, old := range states {
		if _, err := s.fleet.CloseSession(ctx, old.session); err != nil {
			log.Print(err)
		}
	}
}
