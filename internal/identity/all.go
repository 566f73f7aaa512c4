package identity

import (
	"errors"
	"net/http"

	"github.com/assay-run/assay/pkg/job"
)

// All lets in whom any of its gates does, asked in order. If none does, the error is the last one's, or that of a gate
// that could not find out.
func All(gates ...Gate) Gate { return all(gates) }

type all []Gate

// Identify asks one gate after the other.
func (a all) Identify(r *http.Request) (who Identity, err error) {
	for _, g := range a {
		got, refused := g.Identify(r)
		if refused == nil {
			return got, nil
		}
		if !errors.Is(err, job.ErrUnavailable) {
			err = refused
		}
	}
	return who, err
}
