package jetstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/queue"
)

// A server that is configured for it (auth_callout) asks who may connect. Dispatchers
// come with a key that it knows, and answer for everybody else: a worker whose token
// is right gets permissions that begin and end with its own name.
const (
	calloutSubject  = "$SYS.REQ.USER.AUTH"
	calloutAccount  = "$G" // of the server's configuration: the one without a name
	connectPatience = 10 * time.Second
	// A worker answers what it was asked for as long as the longest call takes.
	answerWithin = 25 * time.Hour
)

// restricted says that this connection may do only what workers do.
func (q *Queue) restricted() bool { return q.cfg.Worker != nil && q.cfg.Worker.Token != "" }

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
		if q.cfg.Key != nil && q.cfg.Files.Nkey == "" {
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

// permissions are what a worker may do: say things under its name, hear what is said
// to it and to its pool, take deliveries and answer them. It makes, changes and lists
// nothing at the server. The consumers that it takes from have names that it is told,
// if they are of its pool, and cannot guess.
//
// Of another worker's delivery it may say that it is done, if they have a consumer in
// common. Then the delivery is not made again by the server, but by the reaper: no
// state of a job depends on it.
func permissions(pool, worker string) jwt.Permissions {
	return jwt.Permissions{
		Pub: jwt.Permission{Allow: jwt.StringList{
			requestPrefix + token(pool) + "." + token(worker) + ".>",
			restPrefix + token(worker) + ".>",
			pullSubject + "*",
			"$JS.ACK." + streamName + ".>",
		}},
		Sub: jwt.Permission{Allow: jwt.StringList{
			workerPrefix + token(worker) + ".>",
			poolPrefix + token(pool) + ".>",
			inboxOf(worker) + ".>",
		}},
		Resp: &jwt.ResponsePermission{MaxMsgs: 1, Expires: answerWithin},
	}
}

// admit lets workers in for as long as the connection lives.
func (q *Queue) admit(ctx context.Context) error {
	if q.cfg.Key == nil {
		return nil
	}
	if _, err := q.nc.QueueSubscribe(calloutSubject, serverGroup, q.answerCallout); err != nil {
		return unavailable("listen for workers", err)
	}
	s := &server{q: q, base: context.WithoutCancel(ctx)}
	consumers := requestPrefix + "*.*." + kindConsumer
	if _, err := q.nc.QueueSubscribe(consumers, serverGroup, serve(s, q.lend)); err != nil {
		return unavailable("listen for workers", err)
	}
	ctx, cancel := q.deadline(ctx)
	defer cancel()
	return q.nc.FlushWithContext(ctx)
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
	signature, err := decodeSignature(o.SignedNonce)
	if err != nil || public.Verify([]byte(req.ClientInformation.Nonce), signature) != nil {
		return ""
	}
	return o.Nkey
}

// consumerRequest asks for the consumer of a pool or class, and consumerReply names it.
type consumerRequest struct {
	Class string `json:"class"`
	pool  string // of who asks
}

type consumerReply struct {
	Name string `json:"name"`
}

// lend makes a consumer and tells its name to a worker of its pool.
func (q *Queue) lend(ctx context.Context, r consumerRequest) (consumerReply, error) {
	if placement.ParseClass(r.Class).Pool != r.pool {
		return consumerReply{}, fmt.Errorf("%w: %q is not of the worker's pool", job.ErrRefused, r.Class)
	}
	if err := q.ensureConsumer(ctx, r.Class); err != nil {
		return consumerReply{}, err
	}
	return consumerReply{Name: q.consumerName(r.Class)}, nil
}

// borrow asks for the name of a consumer. It is patient: the dispatcher that has let
// this worker in may just have gone.
func (q *Queue) borrow(ctx context.Context, class string) (string, error) {
	ctx, cancel := q.deadline(ctx)
	defer cancel()
	for {
		r, err := request[consumerReply](ctx, q, q.cfg.Worker.ID, kindConsumer, consumerRequest{Class: class})
		if err == nil || !errors.Is(err, job.ErrUnavailable) || pause(ctx, reconnectWait) != nil {
			return r.Name, err
		}
	}
}

// identify writes down who a request is from. What it says of itself does not count.
// A server that lets everybody in knows no pools.
func (q *Queue) identify(req any, subject string) error {
	pool, worker, err := speaker(subject)
	if err != nil {
		return err
	}
	switch r := req.(type) {
	case *queue.ClaimRequest:
		r.Worker = worker
	case *queue.HeartbeatRequest:
		r.Worker.ID = worker
		if q.cfg.Key != nil {
			r.Worker.Pool = pool
		}
	case *queue.FinishRequest:
		r.Worker = worker
	case *queue.ReleaseRequest:
		r.Worker = worker
	case *consumerRequest:
		r.pool = pool
	}
	return nil
}

// answerable says whether an answer to m goes to the worker that asks and to nobody
// else: a dispatcher may publish anywhere, and must not be led to.
func (q *Queue) answerable(m *nats.Msg, worker string) bool {
	prefix := "_INBOX."
	if q.cfg.Key != nil {
		prefix = inboxOf(worker) + "."
	}
	return strings.HasPrefix(m.Reply, prefix)
}
