package admin

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/secret"
	"github.com/assay-run/assay/internal/transfer"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/object"
	"github.com/assay-run/assay/pkg/store"
)

// Secrets seals and unseals values of tenants with the key of this fleet; *secret.Keeper is one.
type Secrets interface {
	Seal(tenant, name, value string) ([]byte, error)
	Unseal(tenant, name string, sealed []byte) (string, error)
}

// Bounds of the rows that one transaction of an import adds.
const (
	importRows  = 500
	importBytes = 4 << 20
)

// checkValue is the value that the header of a file has sealed, so that a wrong key is found before anything is imported. Its
// name is no secret's.
const (
	checkValue = "assay"
	checkName  = "\x00"
)

// Transfer names a tenant that moves, and the key that seals its secrets on the way: 32 bytes in base64, empty for a
// tenant without secrets.
type Transfer struct{ Tenant, Key, Reason string }

// keeper returns the sealer of the file, or nil without a key.
func (t Transfer) keeper() (*secret.Keeper, error) {
	if t.Key == "" {
		return nil, nil
	}
	k, err := secret.New(t.Key, nil)
	if err != nil {
		return nil, job.Invalid(api.HeaderTransferKey, "must be 32 bytes in base64; make one with: openssl rand -base64 32")
	}
	return k, nil
}

// ExportTenant writes all that a tenant has to a file. It first records the action, then calls open, and writes. It
// returns job.ErrConflict if the tenant has unfinished work. After open it reports errors in the file.
func (a *Admin) ExportTenant(ctx context.Context, who Actor, t Transfer, open func() io.Writer) error {
	keeper, err := t.keeper()
	if err != nil {
		return err
	}
	h := transfer.Header{ID: job.NewID(), Tenant: t.Tenant, At: time.Now().UTC(), Objects: object.TenantPrefixes(t.Tenant)}
	_, err = a.Do(ctx, who, store.Action{Action: "export tenant", Subject: t.Tenant, Tenant: t.Tenant, Reason: t.Reason}, func(done *store.Action) error {
		if err := a.checkExport(ctx, t, keeper); err != nil {
			return err
		}
		schema, err := a.Store.Schema(ctx)
		if err != nil {
			return err
		}
		if h.Fleet, err = a.Store.Fleet(ctx); err != nil {
			return err
		}
		if h.Schema = schema.Has; keeper != nil {
			if h.Sealed, err = keeper.Seal(t.Tenant, checkName, checkValue); err != nil {
				return err
			}
		}
		done.Outcome = store.ActionDone
		done.Detail, _ = json.Marshal(map[string]any{"export": h.ID}) // text always marshals
		return a.Store.NoteAction(ctx, done)
	})
	if err != nil {
		return err
	}
	w, err := transfer.NewWriter(open(), h)
	if err != nil {
		return err
	}
	err = a.Store.ExportTenant(ctx, t.Tenant, func(table string, raw []byte) error {
		if table == store.SecretsTable {
			if keeper == nil { // the secret is newer than the check
				return noKey(t.Tenant)
			}
			var err error
			if raw, err = reseal(t.Tenant, raw, a.Secrets, keeper); err != nil {
				return err
			}
		}
		return w.Row(table, raw)
	})
	if err != nil {
		a.Log.WarnContext(ctx, "tenant export failed", "tenant", t.Tenant, "error", err)
		return w.Fail(err)
	}
	return w.End()
}

// checkExport returns an error for a tenant with unfinished work, or with secrets and without a key for these.
func (a *Admin) checkExport(ctx context.Context, t Transfer, keeper *secret.Keeper) error {
	u, err := a.Store.Unfinished(ctx, t.Tenant)
	if err != nil {
		return err
	}
	if u != (store.Unfinished{}) {
		return fmt.Errorf("%w: tenant %.80q has %d unfinished jobs, %d unfinished batches, %d live sessions and %d undelivered callbacks; "+
			"stop its submissions, then wait for these or cancel them", job.ErrConflict, t.Tenant, u.Jobs, u.Batches, u.Sessions, u.Callbacks)
	}
	found, err := a.Store.Secrets(ctx, t.Tenant)
	if err == nil && len(found) > 0 && keeper == nil {
		err = noKey(t.Tenant)
	}
	return err
}

func noKey(tenant string) error {
	return job.Invalid(api.HeaderTransferKey, "tenant %.80q has secrets; send a key that seals them (--key-file)", tenant)
}

// reseal changes the key of a row of secrets.
func reseal(tenant string, raw []byte, from, to Secrets) ([]byte, error) {
	var row map[string]json.RawMessage
	var name, sealed string
	if err := json.Unmarshal(raw, &row); err != nil {
		return nil, job.Invalid("file", "secrets: %v", err)
	}
	if json.Unmarshal(row["name"], &name) != nil || json.Unmarshal(row["sealed"], &sealed) != nil {
		return nil, job.Invalid("file", "secrets: a row has no name or value")
	}
	bytes, err := hex.DecodeString(strings.TrimPrefix(sealed, `\x`))
	if err != nil {
		return nil, job.Invalid("file", "secret %.80q: %v", name, err)
	}
	value, err := from.Unseal(tenant, name, bytes)
	if err == nil {
		bytes, err = to.Seal(tenant, name, value)
	}
	if err != nil {
		return nil, fmt.Errorf("secret %.80q: %w", name, err)
	}
	row["sealed"], _ = json.Marshal(`\x` + hex.EncodeToString(bytes)) // text always marshals
	return json.Marshal(row)
}

// ImportTenant adds the tenant of a file. It returns job.ErrConflict if the tenant or one of its rows exists, and
// job.ErrInvalid for a wrong key and a cut or changed file: then the tenant stays invisible. A repeated import continues
// after the rows that were imported, and changes nothing if it was finished.
func (a *Admin) ImportTenant(ctx context.Context, who Actor, t Transfer, file io.Reader) (*store.Action, error) {
	keeper, err := t.keeper()
	if err != nil {
		return nil, err
	}
	return a.onTenant(ctx, who, "import tenant", t.Tenant, t.Reason, func(done *store.Action) error {
		r, h, err := transfer.NewReader(file)
		if err != nil {
			return err
		}
		if err := a.checkImport(ctx, t, h, keeper); err != nil {
			return err
		}
		begun, err := a.Store.BeginImport(ctx, store.Import{ID: h.ID, Fleet: h.Fleet, Tenant: h.Tenant})
		if err != nil {
			return err
		}
		i := &importer{Admin: a, tenant: t.Tenant, keeper: keeper, begun: begun}
		for {
			table, raw, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err == nil {
				err = i.row(ctx, table, raw)
			}
			if err != nil {
				return err
			}
		}
		if err := i.flush(ctx); err != nil {
			return err
		}
		done.Detail, _ = json.Marshal(map[string]any{"export": h.ID, "fleet": h.Fleet, "rows": r.Rows()}) // text and numbers always marshal
		return a.Store.FinishImport(ctx, done, h.ID, i.n, i.keys)
	})
}

// checkImport compares a file with the request and this fleet.
func (a *Admin) checkImport(ctx context.Context, t Transfer, h transfer.Header, keeper *secret.Keeper) error {
	schema, err := a.Store.Schema(ctx)
	switch {
	case err != nil:
		return err
	case h.Tenant != t.Tenant:
		return job.Invalid("file", "has tenant %.80q, not %.80q", h.Tenant, t.Tenant)
	case h.Schema != schema.Has:
		return job.Invalid("file", "comes from a fleet with schema %d, and this one has schema %d; upgrade both to the same release and export again", h.Schema, schema.Has)
	case h.Sealed == nil:
		return nil
	case keeper == nil:
		return job.Invalid(api.HeaderTransferKey, "the file has sealed secrets; send the key of the export (--key-file)")
	}
	if value, err := keeper.Unseal(t.Tenant, checkName, h.Sealed); err != nil || value != checkValue {
		return job.Invalid(api.HeaderTransferKey, "does not open the secrets of the file; send the key of the export (--key-file)")
	}
	return nil
}

// importer is an import on its way through the file.
type importer struct {
	*Admin
	tenant string
	keeper *secret.Keeper
	begun  store.Import
	n      int64 // rows so far, without keys
	chunk  []json.RawMessage
	table  string // of the chunk
	bytes  int    // of the chunk
	keys   []json.RawMessage
}

// row takes the next row. It passes over the rows that an earlier import added.
func (i *importer) row(ctx context.Context, table string, raw json.RawMessage) (err error) {
	if table == store.KeysTable {
		if i.keys = append(i.keys, raw); len(i.keys) > store.MaxLiveKeys {
			return job.Invalid("file", "has more than %d live keys", store.MaxLiveKeys)
		}
		return nil
	}
	if table != i.table || len(i.chunk) == importRows || i.bytes+len(raw) > importBytes {
		if err := i.flush(ctx); err != nil {
			return err
		}
	}
	if i.n++; i.n <= i.begun.Rows || i.begun.Finished != nil {
		return nil
	}
	if table == store.SecretsTable {
		if i.keeper == nil {
			return job.Invalid(api.HeaderTransferKey, "the file has sealed secrets; send the key of the export (--key-file)")
		}
		if raw, err = reseal(i.tenant, raw, i.keeper, i.Secrets); err != nil {
			return err
		}
	}
	i.table, i.chunk, i.bytes = table, append(i.chunk, raw), i.bytes+len(raw)
	return nil
}

// flush imports the chunk.
func (i *importer) flush(ctx context.Context) error {
	if len(i.chunk) == 0 {
		return nil
	}
	err := i.Store.ImportRows(ctx, i.begun.ID, i.n-int64(len(i.chunk)), i.table, i.chunk)
	i.chunk, i.bytes = nil, 0
	return err
}
