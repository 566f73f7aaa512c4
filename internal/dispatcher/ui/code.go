package ui

import (
	"crypto/rand"
	"io"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/pkg/job"
)

// maxCodes limits the memory for codes.
const maxCodes = 1000

// codes are one-time replacements for tokens at sign-in. They work only at the dispatcher that made them. Links contain
// them: after its use, a link in a browser's history cannot sign in. Links with tokens do not work, so that other sites
// cannot make links that sign visitors in.
type codes struct {
	mu  sync.Mutex
	all map[string]coded
}

type coded struct {
	token string
	until time.Time
}

// add returns a new code for the holder of a token. The error wraps job.ErrTooMany.
func (c *codes) add(token string, now time.Time) (code string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.all, func(_ string, k coded) bool { return now.After(k.until) })
	if len(c.all) >= maxCodes {
		return "", job.ErrTooMany
	}
	if c.all == nil {
		c.all = map[string]coded{}
	}
	code = rand.Text()
	c.all[code] = coded{token, now.Add(visitTTL)}
	return code, nil
}

// take returns the token of a code and deletes the code.
func (c *codes) take(code string, now time.Time) (token string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.all[code]
	delete(c.all, code)
	return k.token, ok && now.Before(k.until)
}

// makeCode responds to the holder of a token with a code as text.
func (s *Server) makeCode(w http.ResponseWriter, r *http.Request) {
	harden(w.Header())
	code := ""
	token, ok := identity.Bearer(r)
	err := error(api.ErrUnauthorized)
	if ok {
		if _, err = s.identifyToken(r, token); err == nil {
			code, err = s.codes.add(token, s.Now())
		}
	}
	if err != nil {
		p := api.NewProblem(err)
		http.Error(w, p.Detail, p.Status)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, code)
}
