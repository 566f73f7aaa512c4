// Package fault makes operations of the store, the queue and the object store fail at random. There
// are two kinds of failures: the operation is not done but its result is reported as unknown, and
// the operation is done but reported as failed. Programs built with the tag faults use it as a
// layer above the real components. The end-to-end tests run such programs with -faults.
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

// Variable is the environment variable with the share of operations that fail, from 0 to 1.
const Variable = "ASSAY_FAULTS"

// Injector decides which operations fail.
type Injector struct {
	rate float64

	mu     sync.Mutex
	random *rand.Rand
}

// FromEnv returns the Injector that Variable configures, or nil without it.
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

// The possible fates of an operation.
type fate int

const (
	unharmed fate = iota
	refused       // not done, and reported as unknown
	denied        // done, and reported as failed
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

// do does op or injects a failure.
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

// get is do for operations with a result.
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
