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

// issuing has the flags of `dispatcher issue`. It fills existing Secrets of a Kubernetes cluster,
// which the chart creates, so it needs no right to create any:
//
//   - NAME-workers-key: key-GENERATION, the ASSAY_WORKERS_KEY of dispatchers
//   - NAME-worker-POOL: token-GENERATION, the ASSAY_WORKER_TOKEN of that pool's workers
//   - NAME-nats: authorization.conf for the NATS server, without secrets
//
// Pods name their generation and wait for it. A new generation has new tokens; the previous tokens
// stay valid until the next one, so that a fleet can change over.
type issuing struct {
	Name       string   `name:"name" env:"ASSAY_ISSUE_NAME" required:"" help:"Prefix of the names of the Secrets."`
	Pools      []string `name:"pools" env:"ASSAY_ISSUE_POOLS" required:"" help:"Pools to issue tokens for, separated by commas."`
	Generation int      `name:"generation" env:"ASSAY_ISSUE_GENERATION" default:"1" help:"Generation of the keys; add 1 for each rotation."`
}

// issueTries limits how often a concurrently changed Secret is read again.
const issueTries = 10

// secrets stores Secrets. update fails with job.ErrConflict after a concurrent change.
type secrets interface {
	get(ctx context.Context, name string) (secretManifest, error)
	update(ctx context.Context, name string, k secretManifest) error
}

// secretManifest is a Secret. An update deletes nil values of Data.
type secretManifest struct {
	Version string
	Data    map[string][]byte
}

// issue runs `dispatcher issue`, and reports whether the arguments request it.
func issue(ctx context.Context, args []string, out io.Writer) (asked bool, err error) {
	var c issuing
	asked, ready, err := command("issue", aboutIssue, args, &c, out)
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

// key returns the key of the generation. If it does not exist, key derives it from the previous one
// and stores it.
func (c *issuing) key(ctx context.Context, in secrets) (text string, err error) {
	err = change(ctx, in, c.Name+"-workers-key", func(data map[string][]byte) error {
		if have := data[c.entry("key")]; have != nil {
			text = string(have)
			return nil
		}
		switch last := latest("key", data); {
		case last > c.Generation:
			return fmt.Errorf("generation %d is older than the fleet's %d; a rotation needs a higher one", c.Generation, last)
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

// forget deletes old generations. It keeps the current one, the previous one for pods that have not
// been replaced, and later ones in case of a rollback.
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

// generation returns the number in the name of an entry, or 0 for other names.
func generation(of, name string) int {
	number, ok := strings.CutPrefix(name, of+"-")
	n, err := strconv.Atoi(number)
	if !ok || err != nil || n < 1 {
		return 0
	}
	return n
}

// change reads a Secret and changes it. It retries after a concurrent change.
func change(ctx context.Context, in secrets, name string, f func(map[string][]byte) error) error {
	var err error
	for range issueTries {
		var k secretManifest
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
