// Package secret stores the secrets of tenants' jobs.
//
// A value is encrypted here and decrypted only for the answer to a claim of a job whose policy
// names it. The store has the encrypted values and the dispatcher has the key; neither is useful
// alone. An encrypted value is bound to its tenant and name, so a moved row cannot be decrypted.
package secret

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// Limits of a value, in bytes. A shorter value could not be masked in output without masking half
// of the output.
const (
	MinValue = 4
	MaxValue = 32 << 10
	keySize  = 32 // AES-256
)

// Keeper encrypts and decrypts secrets.
type Keeper struct {
	store store.Secrets
	keys  []cipher.AEAD // the first encrypts, all of them decrypt
}

// New returns a Keeper. keys are separated by commas, each 32 bytes in base64. The first encrypts;
// the others only decrypt older values. Without keys the Keeper refuses to encrypt.
func New(keys string, s store.Secrets) (*Keeper, error) {
	k := &Keeper{store: s}
	for i, text := range strings.FieldsFunc(keys, func(c rune) bool { return c == ',' || c == ' ' }) {
		raw, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(raw) != keySize {
			return nil, fmt.Errorf("key %d: must be %d bytes in base64; make one with: openssl rand -base64 %d", i+1, keySize, keySize)
		}
		block, err := aes.NewCipher(raw)
		if err != nil {
			return nil, err
		}
		aead, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			return nil, err
		}
		k.keys = append(k.keys, aead)
	}
	return k, nil
}

// bound is the tenant and name that an encrypted value is bound to. Names contain no NUL.
func bound(ref store.SecretRef) []byte { return []byte(ref.Tenant + "\x00" + ref.Name) }

// Seal encrypts a value of a tenant. The error wraps job.ErrRefused without keys.
func (k *Keeper) Seal(tenant, name, value string) ([]byte, error) {
	if len(k.keys) == 0 {
		return nil, fmt.Errorf("%w: this fleet keeps no secrets: its dispatcher was given no ASSAY_SECRETS_KEY", job.ErrRefused)
	}
	return k.keys[0].Seal(nil, nil, []byte(value), bound(store.SecretRef{Tenant: tenant, Name: name})), nil
}

// Unseal decrypts a value that Seal encrypted with one of the keys for the same tenant and name.
func (k *Keeper) Unseal(tenant, name string, sealed []byte) (string, error) {
	return k.open(store.SecretRef{Tenant: tenant, Name: name}, sealed)
}

func (k *Keeper) open(ref store.SecretRef, sealed []byte) (string, error) {
	for _, key := range k.keys {
		if value, err := key.Open(nil, nil, sealed, bound(ref)); err == nil {
			return string(value), nil
		}
	}
	return "", errors.New("none of the keys decrypts it")
}

// Put encrypts and stores a value and records the action.
func (k *Keeper) Put(ctx context.Context, a *store.Action, tenant, name, value string) error {
	sealed, err := k.Seal(tenant, name, value)
	switch {
	case err != nil:
		return err
	case utf8.RuneCountInString(value) < MinValue:
		return job.Invalid("value", "has %d characters; it must have at least %d", utf8.RuneCountInString(value), MinValue)
	case len(value) > MaxValue:
		return job.Invalid("value", "is %d bytes; at most %d", len(value), MaxValue)
	case !utf8.ValidString(value) || strings.IndexByte(value, 0) >= 0:
		return job.Invalid("value", "must be UTF-8 without NUL bytes: it becomes an environment variable")
	}
	return k.store.PutSecret(ctx, a, store.SecretRef{Tenant: tenant, Name: name}, sealed)
}

// List returns the secrets of a tenant, without values.
func (k *Keeper) List(ctx context.Context, tenant string) ([]store.StoredSecret, error) {
	return k.store.Secrets(ctx, tenant)
}

// Delete deletes a secret and records the action.
func (k *Keeper) Delete(ctx context.Context, a *store.Action, tenant, name string) error {
	return k.store.DeleteSecret(ctx, a, store.SecretRef{Tenant: tenant, Name: name})
}

// Open returns a tenant's secret, for signatures that the dispatcher itself makes. The error is
// job.ErrNotFound if there is none.
func (k *Keeper) Open(ctx context.Context, tenant, name string) (string, error) {
	ref := store.SecretRef{Tenant: tenant, Name: name}
	found, err := k.store.Sealed(ctx, []store.SecretRef{ref})
	if err != nil {
		return "", fmt.Errorf("read secret: %w", err)
	}
	sealed, ok := found[ref]
	if !ok {
		return "", fmt.Errorf("%w: secret %.80q", job.ErrNotFound, name)
	}
	value, err := k.open(ref, sealed)
	if err != nil {
		return "", fmt.Errorf("secret %.80q: %w", name, err)
	}
	return value, nil
}

// Check returns a *job.FieldError for the first variable of wanted (variable → secret) whose secret
// the tenant does not have.
func (k *Keeper) Check(ctx context.Context, tenant string, wanted map[string]string) error {
	if len(wanted) == 0 {
		return nil
	}
	found, err := k.store.Sealed(ctx, refs(tenant, wanted))
	if err != nil {
		return fmt.Errorf("look for secrets: %w", err)
	}
	for _, variable := range slices.Sorted(maps.Keys(wanted)) {
		if _, ok := found[store.SecretRef{Tenant: tenant, Name: wanted[variable]}]; !ok {
			return job.Invalid("policy.env.secrets."+variable, "there is no secret %.80q; put one at /v1/secrets/NAME", wanted[variable])
		}
	}
	return nil
}

func refs(tenant string, wanted map[string]string) (out []store.SecretRef) {
	for _, name := range wanted {
		out = append(out, store.SecretRef{Tenant: tenant, Name: name})
	}
	return out
}

// Reveal decrypts the secrets that claimed jobs need, and no others. It omits a secret that is
// missing or that no key decrypts: the worker then fails the job and names the secret.
func (k *Keeper) Reveal(ctx context.Context, claimed []store.Claimed) (map[job.ID]control.Secrets, error) {
	wanted := map[job.ID]map[string]string{}
	tenants := map[job.ID]string{}
	var all []store.SecretRef
	for _, c := range claimed {
		if names := named(c.Spec); c.Lease != 0 && len(names) > 0 {
			wanted[c.Job], tenants[c.Job] = names, c.Tenant
			all = append(all, refs(c.Tenant, names)...)
		}
	}
	if len(wanted) == 0 {
		return nil, nil
	}
	sealed, err := k.store.Sealed(ctx, all)
	if err != nil {
		return nil, fmt.Errorf("read secrets: %w", err)
	}
	out := make(map[job.ID]control.Secrets, len(wanted))
	for id, names := range wanted {
		out[id] = control.Secrets{}
		for variable, name := range names {
			ref := store.SecretRef{Tenant: tenants[id], Name: name}
			if raw, ok := sealed[ref]; !ok {
				continue
			} else if value, err := k.open(ref, raw); err != nil {
				slog.ErrorContext(ctx, "secret not decrypted", "tenant", ref.Tenant, "name", ref.Name, "error", err)
			} else {
				out[id][variable] = control.Secret(value)
			}
		}
	}
	return out, nil
}

// mark appears in every policy that names secrets, and rarely elsewhere. Specs without it need no
// parsing.
var mark = []byte(`"secrets":{"`)

// named returns the map from variable to secret of an accepted spec.
func named(spec []byte) map[string]string {
	if !bytes.Contains(spec, mark) {
		return nil
	}
	var s struct {
		Policy struct {
			Env struct {
				Secrets map[string]string `json:"secrets"`
			} `json:"env"`
		} `json:"policy"`
	}
	if json.Unmarshal(spec, &s) != nil {
		return nil // the worker will report the problem
	}
	return s.Policy.Env.Secrets
}
