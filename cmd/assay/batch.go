package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/assay-run/assay/internal/cli/program"
	"github.com/assay-run/assay/internal/cli/show"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

type batchCmd struct {
	Submit  batchSubmitCmd  `cmd:"" help:"Submit a JSON Lines file with one job per line; one bad line rejects the file."`
	Get     batchGetCmd     `cmd:"" help:"Show the progress of a batch."`
	List    batchListCmd    `cmd:"" help:"List batches, newest first."`
	Watch   batchWatchCmd   `cmd:"" help:"Show a batch live: progress, outcomes and failures."`
	Results batchResultsCmd `cmd:"" help:"Print the recorded results of a batch, oldest first."`
	Cancel  batchCancelCmd  `cmd:"" help:"Cancel every unfinished job of a batch."`
	Delete  batchDeleteCmd  `cmd:"" help:"Erase a finished batch with its jobs, outputs and artifacts."`
	Retry   batchRetryCmd   `cmd:"" help:"Submit the unsuccessful jobs of a batch again, as a new batch."`
}

type batchSubmitCmd struct {
	File   string            `arg:"" help:"JSON Lines file; - reads standard input."`
	Policy string            `placeholder:"FILE" help:"Policy for jobs without one: a JSON file, or the name of a stored policy."`
	Image  string            `placeholder:"IMAGE" help:"Image for jobs without one."`
	Name   string            `help:"Name for the batch."`
	Label  map[string]string `placeholder:"KEY=VALUE" help:"Labels for the batch."`
	Cap    map[string]int    `name:"label-cap" placeholder:"LABEL=N" help:"Run at most N jobs at once that have the same value of this label."`
	Key    string            `placeholder:"KEY" help:"Idempotency key; a second submit of the same file with it returns the same batch."`
	Cache  bool              `help:"Reuse the results of identical earlier jobs."`
	Wait   bool              `help:"Wait for the batch to finish."`
	Lease  time.Duration     `placeholder:"60s" help:"Cancel the batch after this long without a client; --wait and assay batch results --follow keep it alive."`

	Callback       string `placeholder:"URL" help:"Send a request to this URL when the batch is done."`
	CallbackSecret string `placeholder:"NAME" help:"Name of the secret that signs the callback."`
}

// Validate rejects a secret without a callback to sign.
func (c *batchSubmitCmd) Validate() error {
	if c.CallbackSecret != "" && c.Callback == "" {
		return errors.New("--callback-secret needs --callback URL")
	}
	return nil
}

// Run submits a batch.
func (c *batchSubmitCmd) Run(a *app) error {
	defaults, err := c.defaults()
	if err != nil {
		return err
	}
	in, large, closeInput, err := program.OpenBatch(c.File, a.stdin)
	if err != nil {
		return err
	}
	defer closeInput()
	api, err := a.client()
	if err != nil {
		return err
	}
	o := client.BatchOptions{Name: c.Name, Labels: c.Label, LabelCaps: c.Cap, Defaults: defaults, Key: c.Key, Lease: c.Lease}
	if c.Callback != "" {
		o.Callback = &job.Callback{URL: c.Callback, SecretRef: c.CallbackSecret}
	}
	submit := api.SubmitBatch
	if large {
		submit = api.Upload
	}
	b, err := submit(a.ctx, o, in)
	if err != nil {
		return err
	}
	return a.showBatch(api, b, c.Wait)
}

// showBatch prints a batch that was just submitted. With wait, it waits until the batch is done.
func (a *app) showBatch(api *client.Client, b *job.Batch, wait bool) error {
	if wait {
		if !a.JSON {
			a.printf("batch %s: %d jobs\n", b.ID, b.Total)
		}
		var err error
		id, lease := b.ID, b.Lease.D()
		if b, err = show.Follow(a.ctx, a.stderr, api, b.ID); err != nil {
			return fmt.Errorf("batch %s continues without this client%s: %w", id, onLease(lease), err)
		}
	}
	if a.JSON {
		return a.printJSON(b)
	}
	show.Batch(a.stdout, b)
	return nil
}

func (c *batchSubmitCmd) defaults() (json.RawMessage, error) {
	d := map[string]any{}
	if c.Cache {
		d["cache"] = true
	}
	if c.Image != "" {
		d["image"] = c.Image
	}
	policy, err := program.ReadPolicy(c.Policy)
	if err != nil {
		return nil, err
	}
	if policy != nil {
		d["policy"] = policy
	}
	if len(d) == 0 {
		return nil, nil
	}
	return json.Marshal(d)
}

// onLease returns how long a batch continues without this client.
func onLease(d time.Duration) string {
	if d <= 0 {
		return ""
	}
	return fmt.Sprintf(" for at most %v, which is its lease", d)
}

type batchGetCmd struct {
	ID   string        `arg:"" help:"Id of the batch."`
	Wait time.Duration `help:"Wait at most this long for the batch to finish."`
}

// Run shows a batch.
func (c *batchGetCmd) Run(a *app) error {
	api, err := a.client()
	if err != nil {
		return err
	}
	b, err := api.Batch(a.ctx, job.ID(c.ID), c.Wait)
	if err != nil {
		return err
	}
	return a.showBatch(api, b, false)
}

type batchListCmd struct {
	Limit  int    `default:"20" help:"Most batches to list."`
	Tenant string `placeholder:"NAME" help:"Only batches of this tenant (default: all tenants for operators, else your own)."`
}

// Run lists batches.
func (c *batchListCmd) Run(a *app) error {
	api, err := a.client()
	if err != nil {
		return err
	}
	n := 0
	list := func(tenant string) iter.Seq2[job.Batch, error] { return api.TenantBatches(a.ctx, tenant) }
	for b, err := range visible(c.Tenant, list) {
		if err != nil {
			return err
		}
		if n++; n > c.Limit {
			return nil
		}
		if err := a.showBatch(api, &b, false); err != nil {
			return err
		}
	}
	return nil
}

type batchResultsCmd struct {
	ID     string   `arg:"" help:"Id of the batch."`
	Follow bool     `short:"f" help:"Wait for the remaining results."`
	Fields []string `placeholder:"NAME" help:"Print only these fields of each result, as JSON, such as id,outcome."`
}

// Run prints results: one JSON result a line with --json or --fields, otherwise a line for people.
func (c *batchResultsCmd) Run(a *app) error {
	api, err := a.client()
	if err != nil {
		return err
	}
	for raw, err := range api.Results(a.ctx, job.ID(c.ID), c.Follow, c.Fields...) {
		if err != nil {
			return err
		}
		if a.JSON || len(c.Fields) > 0 {
			a.printf("%s\n", raw)
			continue
		}
		var r job.Result
		if err := json.Unmarshal(raw, &r); err != nil {
			return fmt.Errorf("read result: %w", err)
		}
		a.printf("%s  %-16s %8.1f ms  %s  %s\n", r.ID, r.Outcome, r.Usage.WallMS, r.Name, show.Gist(&r))
	}
	return nil
}

type batchCancelCmd struct {
	ID string `arg:"" help:"Id of the batch."`
}

// Run cancels a batch.
func (c *batchCancelCmd) Run(a *app) error {
	api, err := a.client()
	if err != nil {
		return err
	}
	b, err := api.CancelBatch(a.ctx, job.ID(c.ID))
	if err != nil {
		return err
	}
	return a.showBatch(api, b, false)
}

type batchDeleteCmd struct {
	ID string `arg:"" help:"Id of the batch."`
}

// Run erases a batch.
func (c *batchDeleteCmd) Run(a *app) error {
	api, err := a.client()
	if err != nil {
		return err
	}
	return a.acted(api.DeleteBatch(a.ctx, job.ID(c.ID)))
}

type batchRetryCmd struct {
	ID   string `arg:"" help:"Id of the batch."`
	Wait bool   `help:"Wait for the batch to finish."`
}

// Run retries a batch.
func (c *batchRetryCmd) Run(a *app) error {
	api, err := a.client()
	if err != nil {
		return err
	}
	b, err := api.RetryBatch(a.ctx, job.ID(c.ID))
	if err != nil {
		return err
	}
	return a.showBatch(api, b, c.Wait)
}
