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
	// patience is how long an API call is retried while the dispatcher is not ready.
	patience = 10 * time.Second
)

// Handler serves tools over streamable HTTP. It keeps no state between requests.
type Handler struct {
	sdk    *sdk.StreamableHTTPHandler
	origin *http.CrossOriginProtection
	calls  calls
}

// NewHandler returns a Handler whose tools call an API in this process. If the API is open, every
// caller is admitted. Then pages in a browser of this host are rejected by the host name that they
// use (DNS rebinding).
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

// message is the part of a message that is needed in advance.
type message struct {
	Method string          `json:"method"`
	ID     json.RawMessage `json:"id"`
	Params struct {
		RequestID json.RawMessage `json:"requestId"`
	} `json:"params"`
}

// Serve answers a request of a tenant whose body was read. The tool ends when the client
// disconnects, when the client cancels it, or with leaving.
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
	if json.Unmarshal(body, &m) == nil { // otherwise the library reports the error
		defer h.calls.note(w, r, tenant, m, cancel)()
	}
	ctx := withAuthorization(withWanted(r.Context(), wanted), r.Header.Get("Authorization"))
	r = r.WithContext(ctx)
	r.Body = io.NopCloser(bytes.NewReader(body))
	h.sdk.ServeHTTP(w, r)
}

// calls are the calls of clients with a protocol version before 2026-07-28. These cancel a call
// with a separate request; later versions close the connection. The MCP session ID exists only for
// this.
type calls struct {
	mu  sync.Mutex
	all map[call]context.CancelCauseFunc
}

type call struct{ tenant, session, id string }

// note registers a call until over is called, or cancels the call that m cancels.
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
