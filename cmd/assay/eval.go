package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/assay-run/assay/internal/cli/problems"
)

type evalCmd struct {
	Import evalImportCmd `cmd:"" help:"Convert a Kattis problem package or a CodeContests file to the tests of a job, and print them."`
}

type evalImportCmd struct {
	Path      string `arg:"" help:"Directory or zip of a Kattis problem package, or JSON file of CodeContests problems."`
	Problem   string `placeholder:"NAME" help:"Problem to import, if the file has several."`
	Solutions bool   `help:"Print a batch instead, with one job for each solution in the package."`
}

// Run imports problems and uploads their large files.
func (c *evalImportCmd) Run(a *app) error {
	api, err := a.client()
	if err != nil {
		return err
	}
	blobs := 0
	found, err := c.read(a.ctx, func(ctx context.Context, r io.ReadSeeker) (string, error) {
		blobs++
		return api.PutBlob(ctx, r)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", c.Path, err)
	}
	if found, err = c.chosen(found); err != nil {
		return fmt.Errorf("%s: %w", c.Path, err)
	}
	out := json.NewEncoder(a.stdout)
	for _, p := range found {
		if err := c.print(out, p); err != nil {
			return err
		}
		wall, memory := p.Needs()
		fmt.Fprintf(a.stderr, "%s: %d cases, %d solutions; its jobs need policy.wall %s and policy.memory %s\n", p.Name, len(p.Tests.Stdio), len(p.Solutions), wall, memory)
		for _, note := range p.Notes {
			fmt.Fprintf(a.stderr, "%s: %s\n", p.Name, note)
		}
	}
	fmt.Fprintf(a.stderr, "%d blobs uploaded\n", blobs)
	return nil
}

func (c *evalImportCmd) read(ctx context.Context, upload problems.Upload) ([]*problems.Problem, error) {
	info, err := os.Stat(c.Path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		p, err := problems.Kattis(ctx, c.Path, upload)
		return []*problems.Problem{p}, err
	}
	f, err := os.Open(c.Path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	magic := make([]byte, 4)
	if n, _ := f.ReadAt(magic, 0); string(magic[:n]) == "PK\x03\x04" {
		p, err := problems.KattisZip(ctx, c.Path, upload)
		return []*problems.Problem{p}, err
	}
	return problems.CodeContests(ctx, f, upload)
}

// chosen returns the selected problems.
func (c *evalImportCmd) chosen(all []*problems.Problem) ([]*problems.Problem, error) {
	if c.Problem == "" {
		if len(all) > 1 && !c.Solutions {
			return nil, fmt.Errorf("the file has %d problems; choose one with --problem, or use --solutions", len(all))
		}
		return all, nil
	}
	for _, p := range all {
		if p.Name == c.Problem {
			return []*problems.Problem{p}, nil
		}
	}
	return nil, fmt.Errorf("the file has no problem %q", c.Problem)
}

func (c *evalImportCmd) print(out *json.Encoder, p *problems.Problem) error {
	if !c.Solutions {
		return out.Encode(&p.Tests)
	}
	for i := range p.Solutions {
		s, err := p.Job(&p.Solutions[i])
		if err != nil {
			return fmt.Errorf("%s, solution %s: %w", p.Name, p.Solutions[i].Name, err)
		}
		if err := out.Encode(&s); err != nil {
			return err
		}
	}
	return nil
}
