package identity

import (
	"errors"
	"net/http"

	"github.com/assay-run/assay/api"
)

// ErrForeignToken is an api.ErrUnauthorized of a gate that does not know this kind of token, or finds none. Another gate
// may.
var ErrForeignToken = errors.New("not known to this gate")

// foreignToken is an ErrForeignToken and an api.ErrUnauthorized with a reason.
type foreignToken string

const noToken = "send Authorization: Bearer TOKEN (the CLI reads ASSAY_TOKEN)"

func (e foreignToken) Error() string { return api.ErrUnauthorized.Error() + ": " + string(e) }

func (foreignToken) Is(target error) bool {
	return target == ErrForeignToken || target == api.ErrUnauthorized
}

// ForeignToken returns an ErrForeignToken, which is also an api.ErrUnauthorized, with a reason.
func ForeignToken(why string) error { return foreignToken(why) }

// gates is the Gate that All returns.
type gates []Gate

// All returns a gate that tries gates in order. It stops at the first identity, at an error other than
// api.ErrUnauthorized, and at a key that is not valid. If no gate identifies the sender, it returns the first error
// that is not ErrForeignToken.
func All(gs ...Gate) Gate { return gates(gs) }

// Identify implements Gate.
func (gs gates) Identify(r *http.Request) (Identity, error) {
	refused := error(foreignToken(noToken))
	for _, g := range gs {
		who, err := g.Identify(r)
		switch {
		case err == nil:
			return who, nil
		case !errors.Is(err, api.ErrUnauthorized) || errors.Is(err, errOver):
			return Identity{}, err
		case errors.Is(refused, ErrForeignToken):
			refused = err
		}
	}
	return Identity{}, refused
}

// WithKeys returns a gate for the configured clients and for keys. If configured is open, keys go first, so that a
// revoked key is rejected.
func WithKeys(configured Gate, keys *Keys) Gate {
	if IsOpen(configured) {
		return All(keys, configured)
	}
	return All(configured, keys)
}

// IsOpen reports whether a gate admits every request.
func IsOpen(g Gate) bool {
	_, found := find[Open](g)
	return found
}

// NeedsNoToken reports whether a gate admits requests without a token, from any client or from users of this machine.
func NeedsNoToken(g Gate) bool {
	_, local := find[Local](g)
	return local || IsOpen(g)
}

// find returns g if it has type T, or else the first such gate that it consists of.
func find[T Gate](g Gate) (found T, ok bool) {
	gs, several := g.(gates)
	if !several {
		found, ok = g.(T)
		return found, ok
	}
	for _, one := range gs {
		if found, ok = find[T](one); ok {
			return found, true
		}
	}
	return found, false
}
