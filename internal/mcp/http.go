package mcp

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/assay-run/assay/pkg/client"
)

const (
	sessionHeader = "Mcp-Session-Id"
	// patience is for how long a call of the API is sent again while the dispatcher is not ready.
	patience = 10 * time.Second
)

// Handler serves tools over streamable HTTP. It keeps nothing between two requests.
type Handler struct {
	sdk    *sdk.StreamableHTTPHandler
	origin *http.CrossOriginProtection
	calls  calls
}

// NewHandler returns a Handler whose tools are calls of an API in this process. Where the API is
// open, whoever asks is let in: then pages in a browser of this host are kept out by the name
// that they know this host by.
func NewHandler(api http.Handler, open bool) *Handler {
	c, err := client.New("http://localhost", client.WithHTTPClient(&http.Client{Transport: inProcess{api}}), client.WithPatience(patience))
	if err != nil {
		panic("mcp: client of this process: " + err.Error()) // the address is a constant
	}
	t := &tools{Config: Config{Fleet: c}}
	s := t.server()
	return &Handler{origin: http.NewCrossOriginProtection(), sdk: sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s },
		&sdk.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true, MaxRequestBodyBytes: -1, DisableLocalhostProtection: !open})}
}

// message is what has to be known of a message beforehand.
type message struct {
	Method string          `json:"method"`
	ID     json.RawMessage `json:"id"`
	Params struct {
		RequestID json.RawMessage `json:"requestId"`
	} `json:"params"`
}

// Serve answers a request of a tenant, whose body was read. Its tool ends when the client goes,
// when the client cancels it, or with leaving.
func (h *Handler) Serve(w http.ResponseWriter, r *http.Request, leaving <-chan struct{}, tenant string, body []byte) {
	if err := h.origin.Check(r); err != nil {
		http.Error(w, fmt.Sprintf("%v: pages of other sites may not use this server", err), http.StatusForbidden)
		return
	}
	wanted, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	go func() {
		select {
		case <-leaving:
			cancel(ErrLeaving)
		case <-wanted.Done():
		}
	}()
	var m message
	if json.Unmarshal(body, &m) == nil { // else the library says what is wrong with it
		defer h.calls.note(w, r, tenant, m, cancel)()
	}
	ctx := withAuthorization(withWanted(r.Context(), wanted), r.Header.Get("Authorization"))
	r = r.WithContext(ctx)
	r.Body = io.NopCloser(bytes.NewReader(body))
	h.sdk.ServeHTTP(w, r)
}

// calls are those of clients that speak a version of the protocol before 2026-07-28: they cancel a
// call with a request of its own, where the later ones close the connection. The id of an MCP
// session that they are given is for this alone.
type calls struct {
	mu  sync.Mutex
	all map[call]context.CancelCauseFunc
}

type call struct{ tenant, session, id string }

// note has a call be found until over is called, and cancels the one that m says is canceled.
func (c *calls) note(w http.ResponseWriter, r *http.Request, tenant string, m message, cancel context.CancelCauseFunc) (over func()) {
	session := r.Header.Get(sessionHeader)
	switch {
	case m.Method == "initialize":
		w.Header().Set(sessionHeader, rand.Text())
	case m.Method == "notifications/cancelled" && session != "":
		c.cancel(call{tenant, session, string(m.Params.RequestID)})
	case m.Method == "tools/call" && session != "":
		return c.add(call{tenant, session, string(m.ID)}, cancel)
	}
	return func() {}
}

func (c *calls) add(k call, cancel context.CancelCauseFunc) (remove func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[call]context.CancelCauseFunc{}
	}
	c.all[k] = cancel
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.all, k)
	}
}

func (c *calls) cancel(k call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cancel := c.all[k]; cancel != nil {
		cancel(context.Canceled)
	}
}
