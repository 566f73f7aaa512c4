// Package fault makes the store, the queue and the object store fail now and
// then, in the two ways that callers confuse: nothing was done and it is said
// that it is unknown, and all was done and it is said that it failed. Programs
// that are built with the tag faults have it between themselves and the real
// ones; the end-to-end tests run against such programs (-faults).
package fault

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"

	"github.com/assay-run/assay/pkg/job"
)

// Variable is the environment variable with the share of operations that fail,
// from 0 to 1.
const Variable = "ASSAY_FAULTS"

// Injector decides which operations fail.
type Injector struct {
	rate float64

	mu     sync.Mutex
	random *rand.Rand
}

// FromEnv returns the Injector that Variable asks for, nil without it.
func FromEnv() (*Injector, error) {
	text := os.Getenv(Variable)
	if text == "" {
		return nil, nil
	}
	in := &Injector{random: rand.New(rand.NewPCG(uint64(os.Getpid()), 1))}
	var err error
	if in.rate, err = strconv.ParseFloat(text, 64); err != nil || in.rate < 0 || in.rate > 1 {
		return nil, fmt.Errorf("%s: %q is not a number from 0 to 1", Variable, text)
	}
	slog.Warn("faults will be injected", "share", in.rate)
	return in, nil
}

// what becomes of one operation.
type fate int

const (
	unharmed fate = iota
	refused       // it is not done, and said to be unknown
	denied        // it is done, and said to have failed
)

func (in *Injector) next() fate {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch x := in.random.Float64(); {
	case x < in.rate/2:
		return refused
	case x < in.rate:
		return denied
	}
	return unharmed
}

// do does op, or says that it did not.
func (in *Injector) do(name string, op func() error) error {
	fate := in.next()
	if fate != unharmed {
		slog.Warn("fault injected", "operation", name, "done", fate == denied)
	}
	if fate == refused {
		return fmt.Errorf("%s: %w: injected, nothing was done", name, job.ErrUnavailable)
	}
	err := op()
	if err == nil && fate == denied {
		return fmt.Errorf("%s: %w: injected, all was done", name, job.ErrUnavailable)
	}
	return err
}

// get is do for what has an answer.
func get[T any](in *Injector, name string, op func() (T, error)) (out T, err error) {
	var none T
	err = in.do(name, func() error {
		out, err = op()
		return err
	})
	if err != nil {
		return none, err
	}
	return out, nil
}
