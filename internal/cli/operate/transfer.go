package operate

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/assay-run/assay/internal/transfer"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/fleet"
)

// key is the flags of both directions.
type key struct {
	KeyFile string `name:"key-file" placeholder:"FILE" help:"File with the key that seals the secrets: 32 bytes in base64."`
	Reason  string `name:"reason" short:"m" help:"Reason for the audit log."`
}

// of returns the transfer of a tenant with the key of the file.
func (k *key) of(tenant string) (client.Transfer, error) {
	t := client.Transfer{Tenant: tenant, Reason: k.Reason}
	if k.KeyFile == "" {
		return t, nil
	}
	raw, err := os.ReadFile(k.KeyFile)
	t.Key = strings.TrimSpace(string(raw))
	if err == nil && t.Key == "" {
		err = fmt.Errorf("%s is empty; make a key with: openssl rand -base64 32", k.KeyFile)
	}
	return t, err
}

// ExportTenant exports a tenant to a file.
type ExportTenant struct {
	Tenant string `arg:"" help:"Name of the tenant."`
	File   string `arg:"" help:"File to write; it must not exist."`
	key
}

// summary is the output of both commands.
type summary struct {
	Tenant  string           `json:"tenant"`
	Outcome string           `json:"outcome"`
	Rows    map[string]int64 `json:"rows"`
	Objects []string         `json:"objects"` // prefixes to copy
}

// Run exports. The file gets its name when it is whole.
func (e *ExportTenant) Run(h Host) (err error) {
	if _, err := os.Lstat(e.File); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s exists; name a new file", e.File)
	}
	t, err := e.of(e.Tenant)
	if err != nil {
		return err
	}
	c, err := h.Dial()
	if err != nil {
		return err
	}
	part := e.File + ".part"
	f, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		_ = f.Close()
		if err != nil {
			err = errors.Join(err, os.Remove(part))
		}
	}()
	if err := c.Admin().ExportTenant(h.Context(), t, f); err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	head, rows, err := transfer.Verify(f)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), os.Rename(part, e.File)); err != nil {
		return err
	}
	return report(h, head, rows, "exported")
}

// ImportTenant imports a tenant from a file.
type ImportTenant struct {
	File string `arg:"" help:"File of an export."`
	key
}

// Run reads the whole file first, so that a cut file is not sent.
func (i *ImportTenant) Run(h Host) error {
	open := func() (io.Reader, error) { return os.Open(i.File) }
	f, err := os.Open(i.File)
	if err != nil {
		return err
	}
	head, rows, err := transfer.Verify(f)
	_ = f.Close()
	if err != nil {
		return fmt.Errorf("%s: %w", i.File, err)
	}
	t, err := i.of(head.Tenant)
	if err != nil {
		return err
	}
	c, err := h.Dial()
	if err != nil {
		return err
	}
	done, err := c.Admin().ImportTenant(h.Context(), t, open)
	if err != nil {
		return err
	}
	outcome := "imported"
	if done.Outcome == fleet.ActionUnchanged {
		outcome = "imported before; nothing changed"
	}
	return report(h, head, rows, outcome)
}

func report(h Host, head transfer.Header, rows map[string]int64, outcome string) error {
	return h.Say(summary{head.Tenant, outcome, rows, head.Objects}, func(w io.Writer) error {
		fmt.Fprintf(w, "tenant %s %s:\n", head.Tenant, outcome)
		for _, table := range slices.Sorted(maps.Keys(rows)) {
			fmt.Fprintf(w, "%10d %s\n", rows[table], table)
		}
		_, err := fmt.Fprintf(w, "objects to copy between the buckets, if not done yet: %s\n", strings.Join(head.Objects, " "))
		return err
	})
}
