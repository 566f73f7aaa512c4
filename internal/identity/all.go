package identity

import (
	"errors"
	"net/http"

	"github.com/assay-run/assay/api"
)

// ErrNotMine is an api.ErrUnauthorized of a gate that does not know the kind of a token, or sees none: another gate may.
var ErrNotMine = errors.New("not known to this gate")

// notMine is an ErrNotMine, and an api.ErrUnauthorized, that says why.
type notMine string

const noToken = "send Authorization: Bearer TOKEN (the CLI reads ASSAY_TOKEN)"

func (e notMine) Error() string { return api.ErrUnauthorized.Error() + ": " + string(e) }

func (notMine) Is(target error) bool { return target == ErrNotMine || target == api.ErrUnauthorized }

// NotMine is an ErrNotMine, and an api.ErrUnauthorized, that says why.
func NotMine(why string) error { return notMine(why) }

// gates are asked one after the other.
type gates []Gate

// All is one gate of several: who is known to one of them is let in. They are asked in their order, until one lets in, or
// cannot find out whether it should, or knows that nobody should. Else the first that knows the kind of the token says why.
func All(gs ...Gate) Gate { return gates(gs) }

// Identify asks the gates.
func (gs gates) Identify(r *http.Request) (Identity, error) {
	refused := error(notMine(noToken))
	for _, g := range gs {
		who, err := g.Identify(r)
		switch {
		case err == nil:
			return who, nil
		case !errors.Is(err, api.ErrUnauthorized) || errors.Is(err, errOver):
			return Identity{}, err
		case errors.Is(refused, ErrNotMine):
			refused = err
		}
	}
	return Identity{}, refused
}

// WithKeys is the gate of the configuration, and keys. Where that one lets everybody in, what looks like a key has to be one
// that is live all the same: who revokes a key sees that it ends.
func WithKeys(configured Gate, keys *Keys) Gate {
	if IsOpen(configured) {
		return All(keys, configured)
	}
	return All(configured, keys)
}

// IsOpen reports whether a gate lets everyone in.
func IsOpen(g Gate) bool {
	_, found := find[Open](g)
	return found
}

// NeedsNoToken reports whether a gate lets in requests without a token: all of them, or those of
// users of this machine.
func NeedsNoToken(g Gate) bool {
	_, local := find[Local](g)
	return local || IsOpen(g)
}

// find returns the first gate of type T that g is, or consists of.
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
