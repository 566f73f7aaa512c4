package jetstream

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/placement"
	"github.com/assay-run/assay/pkg/store"
)

// Workers do not send requests to JetStream. A pull and an acknowledgement each name a subject on
// which JetStream then publishes, and JetStream may publish anywhere. So a worker could delete the
// stream through the reply subject of its pull. Instead, a dispatcher relays both:
//
//	worker      assay.req.<pool>.<worker>.pull, reply <its inbox>     {class, batch, wait, gone}
//	dispatcher  $JS.API.CONSUMER.MSG.NEXT.JOBS.<consumer>, the same reply
//	dispatcher  <its inbox>                                           100 relayed
//	JetStream   <its inbox>                                           deliveries, statuses
//	worker      assay.req.<pool>.<worker>.ack                         {class, receipts}
//	dispatcher  $JS.ACK.JOBS.<consumer>.<…>, for each valid one (placed.go)
//
// The inbox must be the worker's own, and its pool must be allowed to run the class. Any dispatcher
// can relay any request. Deliveries do not pass through a dispatcher. A worker repeats a pull
// without a response. A lost acknowledgement costs a redelivery, whose claim is rejected.
const (
	mostPulled   = 1 << 12 // deliveries of one pull
	longestPull  = time.Hour
	longestDelay = time.Minute // of a returned delivery
	// seenFor is how long a seen consumer is assumed to exist.
	seenFor = 2 * time.Second
)

// pullRequest is a worker's request for deliveries of a class of jobs.
type pullRequest struct {
	Class string       `json:"class"`
	Batch int          `json:"batch"`
	Wait  job.Duration `json:"wait"`           // 0: only available messages
	Gone  bool         `json:"gone,omitempty"` // the consumer was missing a moment ago
}

// ackRequest has receipts for deliveries of one class.
type ackRequest struct {
	Class    string    `json:"class"`
	Receipts []receipt `json:"receipts"`
}

// receipt is the acknowledgement of one delivery.
type receipt struct {
	To    string         `json:"to"`  // the delivery's reply subject
	Job   job.ID         `json:"job"` // the delivery's reference
	Gen   job.Generation `json:"generation"`
	Do    verb           `json:"do"`
	Delay job.Duration   `json:"delay,omitempty"` // of verbNak
}

func (r receipt) ref() store.Ref { return store.Ref{Job: r.Job, Generation: r.Gen} }

// verb is the kind of an acknowledgement.
type verb string

const (
	verbAck      verb = "ack"
	verbNak      verb = "nak"
	verbProgress verb = "progress"
	verbTerm     verb = "term"
)

// body returns the acknowledgement in JetStream's format (ADR-15).
func (a receipt) body() ([]byte, error) {
	switch a.Do {
	case verbAck:
		return []byte("+ACK"), nil
	case verbProgress:
		return []byte("+WPI"), nil
	case verbTerm:
		return []byte("+TERM"), nil
	case verbNak:
		if delay := min(a.Delay.D(), longestDelay); delay > 0 {
			return fmt.Appendf(nil, "-NAK {\"delay\": %d}", delay.Nanoseconds()), nil
		}
		return []byte("-NAK"), nil
	}
	return nil, fmt.Errorf("%w: %q is not an acknowledgment of a delivery", job.ErrInvalid, a.Do)
}

// relay serves workers while the connection lives.
func (q *Queue) relay(ctx context.Context) error {
	s := &server{q: q, base: context.WithoutCancel(ctx)}
	for kind, handle := range map[string]nats.MsgHandler{
		kindPull: s.relayPull,
		kindAck:  s.relayAck,
	} {
		if err := s.subscribe(requestPrefix+"*.*."+kind, handle); err != nil {
			return unavailable("listen for workers", err)
		}
	}
	q.relaying = s
	if _, err := q.nc.Subscribe(placedSubject, q.handlePlaced); err != nil {
		return unavailable("listen for numbers of deliveries", err)
	}
	return nil
}

// mayTake reports whether the sender's pool may run jobs of a class. The worker itself checks the
// other needs.
func (q *Queue) mayTake(subject, class string) error {
	pool, _, err := speaker(subject)
	if err != nil {
		return err
	}
	offer := placement.Offer{Exclusive: q.cfg.Exclusive != nil && q.cfg.Exclusive(pool)}
	if !offer.Open(pool, placement.ParseClass(class)) {
		return fmt.Errorf("%w: %.80q is not for the worker's pool", job.ErrRefused, class)
	}
	return nil
}

func (s *server) relayPull(m *nats.Msg) {
	q := s.q
	var r pullRequest
	_, worker, err := speaker(m.Subject)
	if err != nil || !q.answerable(worker)(m.Reply) {
		q.log.Warn("invalid pull request dropped", "subject", m.Subject, "reply", m.Reply)
		return
	}
	if err = json.Unmarshal(m.Data, &r); err != nil {
		err = fmt.Errorf("%w: pull: %w", job.ErrInvalid, err)
	} else {
		err = q.mayTake(m.Subject, r.Class)
	}
	if err != nil {
		s.respondError(s.base, m, err)
		return
	}
	if !r.Gone && q.seen.recently(r.Class) {
		s.passOn(m, r)
		return
	}
	s.running.Go(func() { // callbacks must not block
		if err := q.look(s.base, r.Class); err != nil {
			s.respondError(s.base, m, err)
			return
		}
		s.passOn(m, r)
	})
}

// passOn relays a pull and confirms it. After a failure there is no response, and the worker
// retries.
func (s *server) passOn(m *nats.Msg, r pullRequest) {
	if err := s.q.pull(r, m.Reply); err == nil {
		_ = m.RespondMsg(&nats.Msg{Header: nats.Header{"Status": {statusGoesOn}}})
	}
}

// pull requests deliveries from JetStream to inbox.
func (q *Queue) pull(r pullRequest, inbox string) error {
	wait := min(max(r.Wait.D(), 0), longestPull)
	ask := struct {
		Batch     int           `json:"batch"`
		Expires   time.Duration `json:"expires,omitempty"`
		NoWait    bool          `json:"no_wait,omitempty"`
		Heartbeat time.Duration `json:"idle_heartbeat,omitempty"`
	}{Batch: min(max(r.Batch, 1), mostPulled), Expires: wait, NoWait: wait == 0}
	if wait >= heartbeatMinWait {
		ask.Heartbeat = heartbeat
	}
	body, err := json.Marshal(ask)
	if err != nil {
		return err
	}
	return q.nc.PublishRequest(pullSubject+q.consumerName(r.Class), inbox, body)
}

func (s *server) relayAck(m *nats.Msg) {
	var r ackRequest
	err := json.Unmarshal(m.Data, &r)
	if err == nil {
		err = s.q.mayTake(m.Subject, r.Class)
	}
	if err == nil {
		_, worker, _ := speaker(m.Subject)
		err = s.relayReceipts(worker, r)
	}
	if err != nil {
		s.q.log.Warn("delivery acknowledgments dropped", "subject", m.Subject, "error", err)
	}
}

// acknowledge sends an acknowledgement to JetStream.
func (q *Queue) acknowledge(r receipt) error {
	body, err := r.body()
	if err != nil {
		return err
	}
	// Without a reply subject, so that JetStream does not confirm it.
	if err := q.nc.Publish(r.To, body); err != nil {
		return unavailable("answer a delivery", err)
	}
	return nil
}

// ofConsumer returns the five numbers in the acknowledgement subject of a consumer's delivery, or
// nil for other subjects. The format is $JS.ACK.JOBS.<consumer> and the numbers. Newer servers
// write $JS.ACK.<domain>.<account>.JOBS.<consumer>, the numbers and optional extra components. The
// second number is the number in the stream.
func ofConsumer(subject, consumer string) []string {
	if !literal(subject, "$JS.ACK.") {
		return nil
	}
	words := strings.Split(subject, ".")
	at := 2
	if len(words) >= 11 && words[at] != streamName { // otherwise it could also match another consumer
		at = 4
	}
	if len(words) < at+7 || at == 2 && len(words) != 9 || words[at] != streamName || words[at+1] != consumer {
		return nil
	}
	numbers := words[at+2 : at+7]
	for _, number := range numbers {
		if strings.Trim(number, "0123456789") != "" {
			return nil
		}
	}
	return numbers
}

// look creates a consumer if it is missing. A pull from a missing consumer gets no response, and
// the relaying dispatcher does not notice.
func (q *Queue) look(ctx context.Context, class string) error {
	ctx, cancel := q.deadline(ctx)
	defer cancel()
	if _, err := q.js.Consumer(ctx, streamName, q.consumerName(class)); err != nil {
		return q.ensureConsumer(ctx, class)
	}
	q.seen.note(class)
	return nil
}

// mostRemembered limits the number of recorded classes.
const mostRemembered = 1 << 14

// sightings records recently seen consumers.
type sightings struct {
	mu sync.Mutex
	at map[string]time.Time
}

func (s *sightings) recently(class string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.at[class]) < seenFor
}

func (s *sightings) note(class string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at == nil || len(s.at) >= mostRemembered {
		s.at = map[string]time.Time{}
	}
	s.at[class] = time.Now()
}

// forget clears the record after the stream was lost or the server was unreachable.
func (s *sightings) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = nil
}
