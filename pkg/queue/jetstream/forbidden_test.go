package jetstream_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// leastForbidden is how many operations TestForbidden tries at least.
const leastForbidden = 80

const anID = "01a20dc3-5c48-7000-9596-7ffc76255d2a"

// notToBeHeard are subjects that a worker must not subscribe to. {me} and {pool} are its own.
var notToBeHeard = map[string]string{
	"everything":                         ">",
	"everything of the fleet":            "assay.>",
	"all inboxes":                        "_INBOX.>",
	"all inboxes of workers":             "_INBOX.w.*.>",
	"another worker's inbox":             "_INBOX.w.victim.>",
	"the dispatchers' inboxes":           "_INBOX.d.>",
	"an inbox whose name begins as mine": "_INBOX.w.{me}x.>",
	"what another worker is told":        "assay.to.victim.>",
	"what a name like mine is told":      "assay.to.{me}x.>",
	"what every worker is told":          "assay.to.*.assign",
	"what every worker called mine is":   "assay.*.{me}.>",
	"another pool's classes":             "assay.pool.nobodys.classes",
	"all pools' classes":                 "assay.pool.>",
	"what workers report":                "assay.req.*.*.finish",
	"what workers pull":                  "assay.req.*.*.pull",
	"its own requests":                   "assay.req.{pool}.{me}.>",
	"what another worker reports":        "assay.req.{pool}.victim.>",
	"the sessions of others":             "assay.req.*.*.tell.>",
	"the answers of workers":             "assay.ans.>",
	"the answers of another worker":      "assay.ans.victim.>",
	"the dispatchers":                    "assay.wake.>",
	"deliveries":                         "jobs.>",
	"deliveries of its pool":             "jobs.{pool}.>",
	"requests for the rest":              "assay.rest.>",
	"calls of JetStream":                 "$JS.API.>",
	"pulls":                              "$JS.API.CONSUMER.MSG.NEXT.JOBS.>",
	"acknowledgements":                   "$JS.ACK.>",
	"JetStream's advisories":             "$JS.EVENT.>",
	"flow control":                       "$JS.FC.>",
	"who connects":                       "$SYS.REQ.USER.AUTH",
	"the system":                         "$SYS.>",
	"a bucket":                           "$KV.>",
	"a bucket of objects":                "$O.>",
	"services":                           "$SRV.>",
	"MQTT":                               "$MQTT.>",
}

// notToBeServed are requests of workers that only dispatchers answer.
var notToBeServed = []string{
	"assay.req.*.*.claim", "assay.req.*.*.heartbeat", "assay.req.*.*.finish", "assay.req.*.*.release", "assay.req.*.*.pull",
	"assay.req.*.*.ack", "assay.req.*.*.environment", "assay.req.{pool}.victim.claim", "assay.to.victim.assign", "$SYS.REQ.USER.AUTH",
}

// publication is a message that a worker must not publish.
type publication struct{ subject, reply, body string }

const mine = "_INBOX.w.{me}.answer"

// notToBeSaid are messages that a worker must not publish. {own} is the consumer of its pool, and {other}
// another pool's.
var notToBeSaid = map[string]publication{
	"a heartbeat of another":         {"assay.req.{pool}.victim.heartbeat", mine, `{"worker":{"id":"victim"}}`},
	"a heartbeat of a pool":          {"assay.req.nobodys.{me}.heartbeat", mine, `{"worker":{"id":"{me}","pool":"nobodys"}}`},
	"a claim of another":             {"assay.req.{pool}.victim.claim", mine, `{}`},
	"a finish of another":            {"assay.req.{pool}.victim.finish", mine, `{}`},
	"a release of another":           {"assay.req.{pool}.victim.release", mine, `{}`},
	"an environment of another":      {"assay.req.{pool}.victim.environment", mine, `{"worker":"victim"}`},
	"an environment of another pool": {"assay.req.nobodys.{me}.environment", mine, `{}`},
	"a pull of another":              {"assay.req.{pool}.victim.pull", mine, `{"class":"{pool}","batch":1}`},
	"a pull of another pool":         {"assay.req.nobodys.{me}.pull", mine, `{"class":"nobodys","batch":1}`},
	"an ack of another":              {"assay.req.{pool}.victim.ack", "", `{"class":"{pool}"}`},
	"a finish of a name like mine":   {"assay.req.{pool}.{me}x.finish", mine, `{}`},
	"a finish of nobody":             {"assay.req.{pool}.=.finish", mine, `{}`},
	"a finish of everybody":          {"assay.req.{pool}.*.finish", mine, `{}`},
	"the end of another's session":   {"assay.req.{pool}.victim.tell.session-ended", "", `{"session":"` + anID + `","outcome":"failed"}`},
	"a cancel to another":            {"assay.to.victim.cancel", "", `{"job":"` + anID + `","lease":1}`},
	"a cancel to itself":             {"assay.to.{me}.cancel", "", `{"job":"` + anID + `","lease":1}`},
	"an assignment to another":       {"assay.to.victim.assign", mine, `{}`},
	"an assignment to itself":        {"assay.to.{me}.assign", mine, `{}`},
	"code to another's session":      {"assay.to.victim.session", mine, `{"op":"execute"}`},
	"a question for another's key":   {"assay.to.victim.key", mine, ``},
	"classes":                        {"assay.pool.{pool}.classes", "", `["{pool}?label.a=b"]`},
	"a wake-up to dispatchers":       {"assay.wake.schedule", "", `x`},
	"an answer to another's request": {"_INBOX.w.victim.abc.1", "", `{}`},
	"an answer in an inbox":          {"_INBOX.d.abc.1", "", `{}`},
	"an answer of another":           {"assay.ans.victim.abc.1", "", `{}`},
	"an answer of a name like mine":  {"assay.ans.{me}x.abc.1", "", `{}`},
	"something to its own inbox":     {"_INBOX.w.{me}.abc", "", `{}`},
	"a question for another's rest":  {"assay.rest.victim.abc", mine, `1`},
	"a delivery":                     {"jobs.{pool}.normal." + anID + ".1", mine, ``},
	"a delivery to another pool":     {"jobs.nobodys.normal." + anID + ".1", mine, ``},

	"a pull":                          {"$JS.API.CONSUMER.MSG.NEXT.JOBS.{own}", mine, `{"batch":1,"no_wait":true}`},
	"a pull of another pool's":        {"$JS.API.CONSUMER.MSG.NEXT.JOBS.{other}", mine, `{"batch":1,"no_wait":true}`},
	"a pull from another stream":      {"$JS.API.CONSUMER.MSG.NEXT.OTHER.x", mine, `1`},
	"a pull that deletes the stream":  {"$JS.API.CONSUMER.MSG.NEXT.JOBS.{own}", "$JS.API.STREAM.DELETE.JOBS", `{"batch":1,"no_wait":true}`},
	"a pull that purges it":           {"$JS.API.CONSUMER.MSG.NEXT.JOBS.{own}", "$JS.API.STREAM.PURGE.JOBS", `{"batch":1,"no_wait":true}`},
	"a pull that deletes a consumer":  {"$JS.API.CONSUMER.MSG.NEXT.JOBS.{own}", "$JS.API.CONSUMER.DELETE.JOBS.{own}", `{"batch":1,"no_wait":true}`},
	"a pull that deletes another":     {"$JS.API.CONSUMER.MSG.NEXT.JOBS.{own}", "$JS.API.CONSUMER.DELETE.JOBS.{other}", `nonsense`},
	"a pull that cancels":             {"$JS.API.CONSUMER.MSG.NEXT.JOBS.{own}", "assay.to.victim.cancel", `{"batch":1,"no_wait":true}`},
	"a pull that speaks for another":  {"$JS.API.CONSUMER.MSG.NEXT.JOBS.{own}", "assay.req.{pool}.victim.heartbeat", `{"batch":1}`},
	"an ack":                          {"$JS.ACK.JOBS.{own}.1.1.1.1.0", "", `+ACK`},
	"an ack of another pool's":        {"$JS.ACK.JOBS.{other}.1.4.1.1.0", "", `+ACK`},
	"an ack of another stream's":      {"$JS.ACK.OTHER.x.1.1.1.1.1", "", `+ACK`},
	"an ack that is taken back":       {"$JS.ACK.JOBS.{other}.1.4.1.1.0", "", `-NAK`},
	"an ack that goes on":             {"$JS.ACK.JOBS.{other}.1.4.1.1.0", "", `+WPI`},
	"an ack that ends":                {"$JS.ACK.JOBS.{other}.1.4.1.1.0", "", `+TERM`},
	"an ack that deletes the stream":  {"$JS.ACK.JOBS.{own}.1.1.1.1.0", "$JS.API.STREAM.DELETE.JOBS", `+ACK`},
	"an ack that purges it":           {"$JS.ACK.JOBS.{own}.1.1.1.1.0", "$JS.API.STREAM.PURGE.JOBS", `+WPI`},
	"an ack that deletes a consumer":  {"$JS.ACK.JOBS.{own}.1.1.1.1.0", "$JS.API.CONSUMER.DELETE.JOBS.{own}", `-NAK`},
	"an ack that pulls elsewhere":     {"$JS.ACK.JOBS.{own}.1.1.1.1.0", "_INBOX.w.victim.x", `+NXT`},
	"a purge of the stream":           {"$JS.API.STREAM.PURGE.JOBS", mine, ``},
	"the end of the stream":           {"$JS.API.STREAM.DELETE.JOBS", mine, ``},
	"another form of the stream":      {"$JS.API.STREAM.UPDATE.JOBS", mine, `{"name":"JOBS","subjects":["nothing"]}`},
	"a new stream":                    {"$JS.API.STREAM.CREATE.SPY", mine, `{"name":"SPY","subjects":["assay.>"]}`},
	"a new bucket":                    {"$JS.API.STREAM.CREATE.KV_spy", mine, `{"name":"KV_spy","subjects":["$KV.spy.>"]}`},
	"a new bucket of objects":         {"$JS.API.STREAM.CREATE.OBJ_spy", mine, `{"name":"OBJ_spy","subjects":["$O.spy.>"]}`},
	"a value in a bucket":             {"$KV.spy.a", mine, `x`},
	"an object in a bucket":           {"$O.spy.C.a", mine, `x`},
	"a question about the stream":     {"$JS.API.STREAM.INFO.JOBS", mine, `{"subjects_filter":">"}`},
	"a question for streams":          {"$JS.API.STREAM.LIST", mine, ``},
	"a question for names of streams": {"$JS.API.STREAM.NAMES", mine, ``},
	"a question for a message":        {"$JS.API.STREAM.MSG.GET.JOBS", mine, `{"seq":1}`},
	"the end of a message":            {"$JS.API.STREAM.MSG.DELETE.JOBS", mine, `{"seq":1}`},
	"a direct question for a message": {"$JS.API.DIRECT.GET.JOBS", mine, `{"seq":1}`},
	"one by subject":                  {"$JS.API.DIRECT.GET.JOBS.jobs.{pool}.normal." + anID + ".1", mine, ``},
	"a snapshot":                      {"$JS.API.STREAM.SNAPSHOT.JOBS", mine, `{"deliver_subject":"_INBOX.w.{me}.snap"}`},
	"a restored stream":               {"$JS.API.STREAM.RESTORE.JOBS", mine, `{}`},
	"another leader of the stream":    {"$JS.API.STREAM.LEADER.STEPDOWN.JOBS", mine, ``},
	"a stream with fewer peers":       {"$JS.API.STREAM.PEER.REMOVE.JOBS", mine, `{"peer":"a"}`},
	"another leader of all":           {"$JS.API.META.LEADER.STEPDOWN", mine, ``},
	"the end of a server":             {"$JS.API.SERVER.REMOVE", mine, `{"peer":"a"}`},
	"the end of the account":          {"$JS.API.ACCOUNT.PURGE.$G", mine, ``},
	"a question for consumers":        {"$JS.API.CONSUMER.LIST.JOBS", mine, ``},
	"a question for their names":      {"$JS.API.CONSUMER.NAMES.JOBS", mine, ``},
	"a question about its consumer":   {"$JS.API.CONSUMER.INFO.JOBS.{own}", mine, ``},
	"a question about another":        {"$JS.API.CONSUMER.INFO.JOBS.{other}", mine, ``},
	"a new consumer":                  {"$JS.API.CONSUMER.CREATE.JOBS.spy", mine, `{"stream_name":"JOBS","config":{"name":"spy","filter_subject":"jobs.x"}}`},
	"a new durable consumer":          {"$JS.API.CONSUMER.DURABLE.CREATE.JOBS.spy", mine, `{"stream_name":"JOBS","config":{"durable_name":"spy"}}`},
	"the end of its consumer":         {"$JS.API.CONSUMER.DELETE.JOBS.{own}", mine, ``},
	"the end of another consumer":     {"$JS.API.CONSUMER.DELETE.JOBS.{other}", mine, ``},
	"a pause of a consumer":           {"$JS.API.CONSUMER.PAUSE.JOBS.{other}", mine, `{"pause_until":"2100-01-01T00:00:00Z"}`},
	"a reset of a consumer":           {"$JS.API.CONSUMER.RESET.JOBS.{other}", mine, `{}`},
	"another leader of a consumer":    {"$JS.API.CONSUMER.LEADER.STEPDOWN.JOBS.{other}", mine, ``},
	"a consumer unpinned":             {"$JS.API.CONSUMER.UNPIN.JOBS.{other}", mine, `{"group":"a"}`},
	"flow control":                    {"$JS.FC.JOBS.a.b", mine, ``},
	"a question about the account":    {"$JS.API.INFO", mine, ``},
	"a question to the system":        {"$SYS.REQ.SERVER.PING", mine, ``},
	"one about others":                {"$SYS.REQ.ACCOUNT.PING.CONNZ", mine, ``},
	"who may come in":                 {"$SYS.REQ.USER.AUTH", mine, `x`},
	"the end of a connection":         {"$SYS.REQ.SERVER.x.KICK", mine, `{"cid":1}`},
	"another configuration":           {"$SYS.REQ.SERVER.x.RELOAD", mine, ``},
	"another account":                 {"$SYS.REQ.CLAIMS.UPDATE", mine, `x`},
	"an answer to a service":          {"_R_.abc.1", "", `x`},
	"a question to services":          {"$SRV.PING", mine, ``},
}

// TestForbidden checks that one worker's credentials permit no message, subscription, delivery or change of
// others, and no request to JetStream. At cf886e7 pulls and acks were allowed, and requests to delete
// something deleted it.
func TestForbidden(t *testing.T) {
	t.Parallel()
	names := strings.NewReplacer("{own}", "pool-default", "{other}", "pool-gpu")
	var e *evil
	var s *scene
	if *natsURL != "" {
		e = deployed(t)
	} else {
		s = newScene(t)
		e = s.evil
		names = strings.NewReplacer("{own}", s.consumer("default"), "{other}", s.consumer("gpu"))
	}
	tried, done := 0, 0
	try := func(name, what string, do func() error) {
		tried++
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			if err := do(); err != nil {
				return // not even sent
			}
			if e.refusal() == nil {
				done++
				t.Errorf("was allowed: %s", what)
			}
		})
	}
	for _, name := range slices.Sorted(maps.Keys(notToBeHeard)) {
		subject := e.fill(notToBeHeard[name])
		try("hear/"+name, subject, func() error { _, err := e.nc.SubscribeSync(subject); return err })
	}
	for _, subject := range notToBeServed {
		subject := e.fill(subject)
		try("serve/"+subject, subject, func() error { _, err := e.nc.QueueSubscribeSync(subject, "dispatchers"); return err })
	}
	for _, name := range slices.Sorted(maps.Keys(notToBeSaid)) {
		p := notToBeSaid[name]
		try("say/"+name, names.Replace(p.subject), func() error {
			return e.pub(names.Replace(p.subject), names.Replace(p.reply), p.body)
		})
	}
	// The server sends traces of a message to the address in it.
	try("say/a trace to another", "Nats-Trace-Dest", func() error {
		return e.pub("assay.req.{pool}.{me}.tell.nothing", "", "x", "Nats-Trace-Dest", "assay.to.victim.cancel")
	})
	t.Logf("%d operations tried, %d succeeded", tried, done)
	if tried < leastForbidden {
		t.Errorf("%d operations were tried", tried)
	}
	if s == nil {
		return
	}
	for _, spoken := range s.heard.spoke {
		t.Errorf("a dispatcher heard %q", spoken)
	}
	s.untouched(t, 6, 0)
}
