package operate

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/cli/show"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/fleet"
	"github.com/assay-run/assay/pkg/job"
)

// KeysEnv is the environment of the commands of Keys.
type KeysEnv struct {
	Ctx    context.Context
	Client func() (*client.Client, error)
	JSON   bool // print JSON
	Out    io.Writer
	Err    io.Writer // for messages besides the result
}

// Keys has the commands that manage API keys.
type Keys struct {
	Create createKey `cmd:"" help:"Create a key and print its token, which is never shown again."`
	List   listKeys  `cmd:"" help:"List the keys of a tenant, newest first."`
	Revoke revokeKey `cmd:"" help:"Revoke a key, immediately and permanently."`
}

// createKey makes a key.
type createKey struct {
	Name   string        `arg:"" help:"Name of the holder, for the audit log."`
	Tenant string        `name:"tenant" placeholder:"TENANT" help:"Tenant of the key (default: your own); another tenant needs an admin's token."`
	Role   string        `name:"role" default:"submitter" enum:"reader,submitter,operator,admin" help:"Role: reader, submitter, operator or admin."`
	Label  string        `name:"label" placeholder:"KEY=VALUE" help:"Restrict the key to jobs and batches with this label."`
	Policy string        `name:"policy" placeholder:"NAME" help:"Run all jobs of the key under this stored policy."`
	For    time.Duration `name:"for" placeholder:"TIME" help:"Lifetime, such as 720h (default: until revoked)."`
	Reason string        `name:"reason" short:"m" help:"Reason for the audit log."`
}

// Run prints only the token to stdout, so that programs can read it. Messages go to Err.
func (c *createKey) Run(e *KeysEnv) error {
	fleet, err := e.Client()
	if err != nil {
		return err
	}
	made, err := fleet.CreateKey(e.Ctx, api.KeyRequest{Name: c.Name, Tenant: c.Tenant, Role: c.Role, Label: c.Label, Policy: c.Policy,
		For: job.Duration(c.For), Reason: c.Reason})
	if err != nil {
		return err
	}
	if e.JSON {
		return e.json(made)
	}
	fmt.Fprintf(e.Err, "key %s: %s of %s; its token is not shown again:\n", made.Key.ID, made.Key.Role, show.Plain(made.Key.Tenant))
	fmt.Fprintln(e.Out, made.Token)
	return nil
}

// listKeys lists keys.
type listKeys struct {
	Tenant string `name:"tenant" placeholder:"TENANT" help:"Tenant (default: your own); another tenant needs an operator's token."`
	All    bool   `name:"all" help:"Include revoked and expired keys."`
}

// Run lists keys.
func (c *listKeys) Run(e *KeysEnv) error {
	from, err := e.Client()
	if err != nil {
		return err
	}
	found := []fleet.Key{}
	for k, err := range from.Keys(e.Ctx, c.Tenant) {
		if err != nil {
			return err
		}
		if c.All || keyState(k) == "live" {
			found = append(found, k)
		}
	}
	if e.JSON {
		return e.json(found)
	}
	t := show.NewTable(e.Out, "ID", "NAME", "TENANT", "ROLE", "HELD TO", "MARK", "STATE", "USED")
	for _, k := range found {
		t.Row(k.ID, k.Name, k.Tenant, k.Role, keyLimits(k), k.Mark, keyState(k), timeOrDash(k.LastUsedAt))
	}
	return t.End()
}

// keyState returns whether a key is valid, by the clock of this machine.
func keyState(k fleet.Key) string {
	switch {
	case k.RevokedAt != nil:
		return "revoked " + timeOrDash(k.RevokedAt)
	case k.ExpiresAt != nil && k.ExpiresAt.Before(time.Now()):
		return "expired " + timeOrDash(k.ExpiresAt)
	}
	return "live"
}

func keyLimits(k fleet.Key) string {
	switch {
	case k.Label != "" && k.Policy != "":
		return k.Label + ", policy " + k.Policy
	case k.Policy != "":
		return "policy " + k.Policy
	case k.Label != "":
		return k.Label
	}
	return "-"
}

func timeOrDash(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.Local().Format(time.DateTime)
}

// revokeKey revokes a key.
type revokeKey struct {
	ID     string `arg:"" help:"Id of the key, as in assay keys list."`
	Reason string `name:"reason" short:"m" help:"Reason for the audit log."`
}

// Run revokes a key.
func (c *revokeKey) Run(e *KeysEnv) error {
	id, err := job.ParseID(c.ID)
	if err != nil {
		return fmt.Errorf("ID: %.80q is not the id of a key; see assay keys list", c.ID)
	}
	fleet, err := e.Client()
	if err != nil {
		return err
	}
	k, err := fleet.RevokeKey(e.Ctx, id, c.Reason)
	if err != nil {
		return err
	}
	if e.JSON {
		return e.json(k)
	}
	fmt.Fprintf(e.Out, "key %s (%s of %s): %s by %s\n", k.ID, show.Plain(k.Name), show.Plain(k.Tenant), keyState(k), show.Plain(k.RevokedBy))
	return nil
}

// json prints v as one line.
func (e *KeysEnv) json(v any) error {
	enc := json.NewEncoder(e.Out)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
