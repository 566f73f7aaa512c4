package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/queue/identity"
)

// issuing is what `dispatcher issue` can be told. It fills Secrets of a Kubernetes
// cluster that exist, which is the chart's to see to, and so needs to create none:
//
//   - NAME-workers-key: key-GENERATION, the ASSAY_WORKERS_KEY of dispatchers
//   - NAME-worker-POOL: token-GENERATION, the ASSAY_WORKER_TOKEN of that pool's workers
//   - NAME-nats: authorization.conf for the NATS server; nothing in it is secret
//
// Pods name the generation that they want and wait until it is there. One that is asked
// for anew has new tokens; those of the one before stay good until the next, so a fleet
// can change from one to the other.
type issuing struct {
	Name       string   `name:"name" env:"ASSAY_ISSUE_NAME" required:"" help:"What the names of the Secrets begin with."`
	Pools      []string `name:"pools" env:"ASSAY_ISSUE_POOLS" required:"" help:"The pools, separated by commas."`
	Generation int      `name:"generation" env:"ASSAY_ISSUE_GENERATION" default:"1" help:"1, and more by one for each rotation."`
}

// issueTries bounds how often a Secret that somebody else changed meanwhile is read again.
const issueTries = 10

// secrets is where they are kept: update fails with job.ErrConflict where somebody else was
// faster.
type secrets interface {
	get(ctx context.Context, name string) (kept, error)
	update(ctx context.Context, name string, k kept) error
}

// kept is a Secret. A nil value of Data is taken away by an update.
type kept struct {
	Version string
	Data    map[string][]byte
}

// issue answers `dispatcher issue`, and reports whether it was that.
func issue(ctx context.Context, args []string, out io.Writer) (asked bool, err error) {
	var c issuing
	asked, ready, err := command("issue", "Fills the Secrets of a fleet in a Kubernetes cluster, from inside of it.", args, &c, out)
	if !ready {
		return asked, err
	}
	if c.Generation < 1 {
		return true, fmt.Errorf("--generation: %d is not 1 or more", c.Generation)
	}
	cluster, err := openCluster()
	if err != nil {
		return true, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if err := c.issue(ctx, cluster); err != nil {
		return true, err
	}
	_, err = fmt.Fprintf(out, "generation %d is issued to %s\n", c.Generation, strings.Join(c.Pools, ", "))
	return true, err
}

func (c *issuing) issue(ctx context.Context, in secrets) error {
	text, err := c.key(ctx, in)
	if err != nil {
		return err
	}
	k, err := identity.ParseKey(text)
	if err != nil {
		return fmt.Errorf("secret %s-workers-key: key-%d: %w", c.Name, c.Generation, err)
	}
	if err := change(ctx, in, c.Name+"-nats", func(data map[string][]byte) error {
		data["authorization.conf"] = []byte(authorization(k))
		return nil
	}); err != nil {
		return err
	}
	for _, pool := range c.Pools {
		if err := change(ctx, in, c.Name+"-worker-"+pool, func(data map[string][]byte) error {
			data[c.entry("token")] = []byte(k.JoinToken(pool))
			c.forget("token", data)
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// key returns the key of the generation, which it makes from the one before if there is
// none. A generation is made once: who comes back to it finds it.
func (c *issuing) key(ctx context.Context, in secrets) (text string, err error) {
	err = change(ctx, in, c.Name+"-workers-key", func(data map[string][]byte) error {
		if have := data[c.entry("key")]; have != nil {
			text = string(have)
			return nil
		}
		switch last := latest("key", data); {
		case last > c.Generation:
			return fmt.Errorf("generation %d is over, the fleet is at %d: a rotation goes forward", c.Generation, last)
		case last == 0:
			text = identity.NewKey()
		default:
			if text, err = identity.RotateKey(string(data["key-"+strconv.Itoa(last)])); err != nil {
				return fmt.Errorf("key-%d: %w", last, err)
			}
		}
		data[c.entry("key")] = []byte(text)
		c.forget("key", data)
		return nil
	})
	return text, err
}

func (c *issuing) entry(of string) string { return of + "-" + strconv.Itoa(c.Generation) }

// forget takes away all generations but this one, the one before, for pods that have not
// been replaced yet, and later ones, as an upgrade may be rolled back.
func (c *issuing) forget(of string, data map[string][]byte) {
	var before []int
	for name := range data {
		if n := generation(of, name); n > 0 && n < c.Generation {
			before = append(before, n)
		}
	}
	slices.Sort(before)
	for _, n := range before[:max(0, len(before)-1)] {
		data[of+"-"+strconv.Itoa(n)] = nil
	}
}

func latest(of string, data map[string][]byte) (last int) {
	for name, value := range data {
		if value != nil {
			last = max(last, generation(of, name))
		}
	}
	return last
}

// generation is the number in the name of an entry, 0 if it is another's.
func generation(of, name string) int {
	number, ok := strings.CutPrefix(name, of+"-")
	n, err := strconv.Atoi(number)
	if !ok || err != nil || n < 1 {
		return 0
	}
	return n
}

// change reads a Secret, changes it, and does so again if somebody else did meanwhile.
func change(ctx context.Context, in secrets, name string, f func(map[string][]byte) error) error {
	var err error
	for range issueTries {
		var k kept
		if k, err = in.get(ctx, name); err != nil {
			return err
		}
		if k.Data == nil {
			k.Data = map[string][]byte{}
		}
		if err := f(k.Data); err != nil {
			return fmt.Errorf("secret %s: %w", name, err)
		}
		if err = in.update(ctx, name, k); !errors.Is(err, job.ErrConflict) {
			return err
		}
	}
	return err
}
