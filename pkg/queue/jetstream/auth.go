package jetstream

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/queue/identity"
)

// A server with auth_callout forwards connection requests to dispatchers. Dispatchers connect with
// a key from the server's configuration. They give a worker with a valid token permissions for its
// own name only.
const (
	calloutSubject  = "$SYS.REQ.USER.AUTH"
	calloutAccount  = "$G" // the account without a name in the server's configuration
	connectPatience = 10 * time.Second
)

// credentials returns the options that identify this process to the server.
func (q *Queue) credentials() (o []nats.Option, err error) {
	sign := func(kp nkeys.KeyPair) error {
		public, err := kp.PublicKey()
		o = append(o, nats.Nkey(public, kp.Sign))
		return err
	}
	if o, err = q.cfg.Files.options(); err != nil {
		return nil, err
	}
	w := q.cfg.Worker
	switch {
	case w == nil:
		o = append(o, nats.CustomInboxPrefix(dispatcherInbox))
		if q.cfg.Key != nil && !q.cfg.Files.has(nkeyFile) {
			err = sign(q.cfg.Key.Dispatcher())
		}
		return o, err
	case w.Key != nil:
		err = sign(w.Key)
	}
	o = append(o, nats.CustomInboxPrefix(inboxOf(w.ID)))
	if w.Token != "" {
		// While no dispatcher runs, connections are rejected. Keep trying.
		o = append(o, nats.UserInfo(token(w.Pool)+"."+token(w.ID), w.Token), nats.IgnoreAuthErrorAbort(), nats.Timeout(connectPatience))
	}
	return o, err
}

// permissions returns the permissions of a worker: publish and respond under its own name, and
// receive messages to itself and its pool.
//
// It may not use JetStream, not even to pull or acknowledge. Both requests name a subject that
// JetStream, which may publish anywhere, would publish on. For the same reason, response
// permissions are off: deliveries name the subject of their acknowledgement. Dispatchers relay both
// (relay.go).
func permissions(pool, worker string) jwt.Permissions {
	return jwt.Permissions{
		Pub: jwt.Permission{Allow: jwt.StringList{
			requestPrefix + token(pool) + "." + token(worker) + ".>",
			restPrefix + token(worker) + ".>",
			answerPrefix + token(worker) + ".>",
		}},
		Sub: jwt.Permission{Allow: jwt.StringList{
			workerPrefix + token(worker) + ".>",
			poolPrefix + token(pool) + ".>",
			inboxOf(worker) + ".>",
		}},
	}
}

// admit authenticates workers while the connection lives.
func (q *Queue) admit() error {
	if q.cfg.Key == nil {
		return nil
	}
	if _, err := q.nc.QueueSubscribe(calloutSubject, serverGroup, q.answerCallout); err != nil {
		return unavailable("listen for workers", err)
	}
	return nil
}

func (q *Queue) answerCallout(m *nats.Msg) {
	req, err := jwt.DecodeAuthorizationRequestClaims(string(m.Data))
	if err != nil {
		q.log.Warn("invalid authentication request dropped", "error", err)
		return
	}
	resp := jwt.NewAuthorizationResponseClaims(req.UserNkey)
	resp.Audience = req.Server.ID
	if resp.Jwt, err = q.grantPermissions(req); err != nil {
		q.log.Warn("client rejected", "from", req.ClientInformation.Host, "error", err)
		resp.Error = "not let in" // the reason is for the operator only
	}
	answer, err := resp.Encode(q.cfg.Key.Issuer())
	if err == nil {
		err = m.Respond([]byte(answer))
	}
	if err != nil {
		q.log.Warn("authentication request not answered", "error", err)
	}
}

// grantPermissions returns the signed permissions of the connecting client.
func (q *Queue) grantPermissions(req *jwt.AuthorizationRequestClaims) (string, error) {
	o := req.ConnectOptions
	p, w, ok := strings.Cut(o.Username, ".")
	pool, err := untoken(p)
	worker, werr := untoken(w)
	if !ok || err != nil || werr != nil {
		return "", fmt.Errorf("%w: %.80q is no worker", job.ErrRefused, o.Username)
	}
	if slices.Contains(q.cfg.Refused, worker) {
		return "", fmt.Errorf("%w: worker %q is rejected by --workers-refused", job.ErrRefused, worker)
	}
	if err := q.cfg.Key.Check(o.Password, worker, pool, proven(req)); err != nil {
		return "", err
	}
	user := jwt.NewUserClaims(req.UserNkey)
	user.Name, user.Audience = worker, calloutAccount
	user.Permissions = permissions(pool, worker)
	user.AllowedConnectionTypes = jwt.StringList{jwt.ConnectionTypeStandard}
	return user.Encode(q.cfg.Key.Issuer())
}

// proven returns the public key that signed the server's nonce, or "".
func proven(req *jwt.AuthorizationRequestClaims) string {
	o := req.ConnectOptions
	if o.Nkey == "" || o.SignedNonce == "" || req.ClientInformation.Nonce == "" {
		return ""
	}
	public, err := nkeys.FromPublicKey(o.Nkey)
	if err != nil {
		return ""
	}
	signature, err := base64.RawURLEncoding.DecodeString(o.SignedNonce)
	if err != nil || public.Verify([]byte(req.ClientInformation.Nonce), signature) != nil {
		return ""
	}
	return o.Nkey
}

// identify sets the sender of a request from its subject and overwrites the sender's own claim. A
// server without authentication has no pools.
func (q *Queue) identify(req any, subject string) error {
	pool, worker, err := speaker(subject)
	if err != nil {
		return err
	}
	switch r := req.(type) {
	case *control.ClaimRequest:
		r.Worker = worker
	case *control.HeartbeatRequest:
		r.Worker.ID = worker
		if q.cfg.Key != nil {
			r.Worker.Pool = pool
		}
	case *control.FinishRequest:
		r.Worker = worker
	case *control.ReleaseRequest:
		r.Worker = worker
	case *control.EnvironmentRequest:
		r.Worker, r.Pool, r.Witness = worker, pool, worker
		if q.cfg.Key != nil && identity.Joined(worker) {
			r.Witness = joinedWitness
		}
	}
	return nil
}

// joinedWitness is the single witness for all workers with a pool's join token, because an owner of
// the token can create any number of them. No joined worker has this name.
const joinedWitness = "(join token)"

// answerable returns a function that reports whether a reply subject belongs to the worker that
// named it. A dispatcher may publish anywhere, so it must not follow other subjects.
func (q *Queue) answerable(worker string) func(reply string) bool {
	prefix := "_INBOX."
	if q.cfg.Key != nil {
		prefix = inboxOf(worker) + "."
	}
	return func(reply string) bool { return literal(reply, prefix) }
}
