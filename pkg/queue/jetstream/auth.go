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

// A server that is configured for it (auth_callout) asks who may connect. Dispatchers
// come with a key that it knows, and answer for everybody else: a worker whose token
// is right gets permissions that begin and end with its own name.
const (
	calloutSubject  = "$SYS.REQ.USER.AUTH"
	calloutAccount  = "$G" // of the server's configuration: the one without a name
	connectPatience = 10 * time.Second
)

// credentials are the options by which the server knows this process.
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
		// While no dispatcher is there nobody is let in: that is no reason to give up.
		o = append(o, nats.UserInfo(token(w.Pool)+"."+token(w.ID), w.Token), nats.IgnoreAuthErrorAbort(), nats.Timeout(connectPatience))
	}
	return o, err
}

// permissions are what a worker may do: say things and answer under its name, hear what
// is said to it and to its pool. Of JetStream it may ask for nothing, not even for
// deliveries, and acknowledge none: both name a subject that JetStream, which may
// publish anywhere, then publishes on. For the same reason it may not answer wherever
// a message says, as the server could allow it: deliveries say where they are
// acknowledged. Dispatchers do both for it (relay.go).
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

// admit lets workers in for as long as the connection lives.
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
		q.log.Warn("request to let somebody in dropped", "error", err)
		return
	}
	resp := jwt.NewAuthorizationResponseClaims(req.UserNkey)
	resp.Audience = req.Server.ID
	if resp.Jwt, err = q.letIn(req); err != nil {
		q.log.Warn("not let in", "from", req.ClientInformation.Host, "error", err)
		resp.Error = "not let in" // why is for the operator
	}
	answer, err := resp.Encode(q.cfg.Key.Issuer())
	if err == nil {
		err = m.Respond([]byte(answer))
	}
	if err != nil {
		q.log.Warn("request to let somebody in not answered", "error", err)
	}
}

// letIn returns the permissions of who asks, signed.
func (q *Queue) letIn(req *jwt.AuthorizationRequestClaims) (string, error) {
	o := req.ConnectOptions
	p, w, ok := strings.Cut(o.Username, ".")
	pool, err := untoken(p)
	worker, werr := untoken(w)
	if !ok || err != nil || werr != nil {
		return "", fmt.Errorf("%w: %.80q is no worker", job.ErrRefused, o.Username)
	}
	if slices.Contains(q.cfg.Refused, worker) {
		return "", fmt.Errorf("%w: worker %q is not to be let in", job.ErrRefused, worker)
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

// proven returns the public key with which who asks has signed what the server gave
// it to sign; "" if it has not.
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

// identify writes down who a request is from. What it says of itself does not count.
// A server that lets everybody in knows no pools.
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

// joinedWitness is the one witness that all workers of a pool are which came with its join
// token: who has the token can be as many of them as they like. No joined worker has the name.
const joinedWitness = "(join token)"

// answerable says of a subject whether what is published there goes to the worker that
// has named it and to nobody else: a dispatcher may publish anywhere, and must not be
// led to.
func (q *Queue) answerable(worker string) func(reply string) bool {
	prefix := "_INBOX."
	if q.cfg.Key != nil {
		prefix = inboxOf(worker) + "."
	}
	return func(reply string) bool { return literal(reply, prefix) }
}
