package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
	"github.com/assay-run/assay/pkg/store/postgres"
)

// withKeys configures a fleet with tokens and keys.
func withKeys(t *testing.T, tokens string) func(*parts) {
	t.Helper()
	configured, err := identity.ReadTokens(tokens)
	if err != nil {
		t.Fatal(err)
	}
	return func(c *parts) { c.Auth = identity.WithKeys(configured, runKeys(t, c.Store)) }
}

// runKeys returns a gate like a dispatcher's.
func runKeys(t *testing.T, s store.Keys) *identity.Keys {
	keys := identity.NewKeys(s, slog.New(slog.NewTextHandler(t.Output(), nil)))
	ctx, stop := context.WithCancel(context.Background())
	var ran sync.WaitGroup
	ran.Go(func() { keys.Run(ctx) })
	t.Cleanup(func() { stop(); ran.Wait() })
	return keys
}

// key makes a key with a token and returns it.
func (f *fleet) key(with string, q api.KeyRequest) api.NewKey {
	f.t.Helper()
	made, err := f.client(client.WithToken(with)).CreateKey(f.t.Context(), q)
	if err != nil {
		f.t.Fatal(err)
	}
	return made
}

func TestKeysOverTheAPI(t *testing.T) {
	t.Parallel()
	f := newFleet(t, withKeys(t, "root=ops:admin,key-b=b"))
	made := f.key("root", api.KeyRequest{Name: "ci of a", Tenant: "a", Reason: "they asked", For: job.Duration(time.Hour)})
	if made.Key.Tenant != "a" || made.Key.Role != "submitter" || made.Key.CreatedBy != "ops" || made.Key.ExpiresAt == nil || !identity.IsKeyToken(made.Token) {
		t.Fatalf("made: %+v", made)
	}
	a, b, root := f.client(client.WithToken(made.Token)), f.client(client.WithToken("key-b")), f.client(client.WithToken("root"))
	if _, err := a.Run(t.Context(), job.Spec{Program: job.Program{Python: &job.Python{Code: "1"}}}); err != nil {
		t.Errorf("a key that was just made: %v", err)
	}
	listed := func(c *client.Client, tenant string) (out []string) {
		for k, err := range c.Keys(t.Context(), tenant) {
			if err != nil {
				t.Error(err)
			}
			out = append(out, k.Name)
		}
		return out
	}
	if got := [3][]string{listed(a, ""), listed(b, ""), listed(root, "a")}; fmt.Sprint(got) != "[[ci of a] [] [ci of a]]" {
		t.Errorf("lists: %v", got)
	}
	if k, err := a.Key(t.Context(), made.Key.ID); err != nil || k.ID != made.Key.ID || !k.CreatedAt.Equal(made.Key.CreatedAt) {
		t.Errorf("read: %+v, %v", k, err)
	}
	for what, err := range map[string]error{"read": second(b.Key(t.Context(), made.Key.ID)), "revoke": second(b.RevokeKey(t.Context(), made.Key.ID, ""))} {
		if !errors.Is(err, job.ErrNotFound) {
			t.Errorf("another tenant's key, %s: %v", what, err)
		}
	}
	for range 2 {
		if k, err := root.RevokeKey(t.Context(), made.Key.ID, "it was lost"); err != nil || k.RevokedAt == nil || k.RevokedBy != "ops" {
			t.Errorf("revoked: %+v, %v", k, err)
		}
	}
	f.endsWithinASecond(made.Token)
	var log []string
	actions, err := root.Admin().Actions(t.Context(), store.ActionQuery{Subject: string(made.Key.ID)})
	for _, x := range actions.Actions {
		log = append(log, fmt.Sprint(x.Action, " ", x.Reason, " ", x.Outcome))
		if strings.Contains(string(x.Detail), made.Token) || !strings.Contains(string(x.Detail), made.Key.Mark) {
			t.Errorf("the record has %s", x.Detail)
		}
		if x.Remote == "" {
			t.Errorf("%s: from nowhere", x.Action)
		}
	}
	if want := "[revoke key it was lost unchanged revoke key it was lost done make key they asked done]"; err != nil || fmt.Sprint(log) != want {
		t.Errorf("written down: %v, %v, want %s", log, err, want)
	}
}

// endsWithinASecond checks that a token is rejected within a second.
func (f *fleet) endsWithinASecond(token string) {
	f.t.Helper()
	for start := time.Now(); ; {
		code, p := f.send(token, "GET", "/v1/jobs", nil)
		if code == http.StatusUnauthorized {
			return
		}
		if time.Since(start) > time.Second {
			f.t.Fatalf("a second after its end a key is let in: %d %s", code, p.Detail)
		}
	}
}

// Callers cannot make keys with more rights or a longer life than their own, nor revoke keys with more rights.
func TestNoKeyMakesAStrongerOne(t *testing.T) {
	t.Parallel()
	f := newFleet(t, withKeys(t, "root=ops:admin,op=ops:operator,sub=a,read=a:reader"))
	short := f.key("root", api.KeyRequest{Name: "short", Tenant: "a", For: job.Duration(time.Minute)}).Token
	held := f.key("sub", api.KeyRequest{Name: "held", Label: "run=7"}).Token
	for _, c := range []struct {
		with string
		q    api.KeyRequest
		want error
	}{
		{"root", api.KeyRequest{Name: "x", Tenant: "b", Role: "admin"}, nil},
		{"op", api.KeyRequest{Name: "x", Role: "operator"}, nil},
		{"op", api.KeyRequest{Name: "x", Role: "admin"}, job.ErrRefused},
		{"op", api.KeyRequest{Name: "x", Tenant: "a"}, job.ErrRefused},
		{"sub", api.KeyRequest{Name: "x"}, nil},
		{"sub", api.KeyRequest{Name: "x", Tenant: "a", Role: "reader", Policy: "p"}, nil},
		{"sub", api.KeyRequest{Name: "x", Role: "operator"}, job.ErrRefused},
		{"sub", api.KeyRequest{Name: "x", Tenant: "b"}, job.ErrRefused},
		{"read", api.KeyRequest{Name: "x", Role: "reader"}, job.ErrRefused},
		{held, api.KeyRequest{Name: "x", Label: "run=7"}, job.ErrRefused},
		{short, api.KeyRequest{Name: "x"}, job.ErrRefused},
		{short, api.KeyRequest{Name: "x", For: job.Duration(time.Hour)}, job.ErrRefused},
		{short, api.KeyRequest{Name: "x", For: job.Duration(10 * time.Second)}, nil},
	} {
		if _, err := f.client(client.WithToken(c.with)).CreateKey(t.Context(), c.q); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s makes %+v: %v, want %v", c.with, c.q, err, c.want)
		}
	}
	strong, weak := f.key("root", api.KeyRequest{Name: "strong", Tenant: "a", Role: "operator"}), f.key("root", api.KeyRequest{Name: "weak", Tenant: "b"})
	if _, err := f.client(client.WithToken("sub")).RevokeKey(t.Context(), strong.Key.ID, ""); !errors.Is(err, job.ErrRefused) {
		t.Errorf("a submitter revokes an operator's key: %v", err)
	}
	if _, err := f.client(client.WithToken("op")).RevokeKey(t.Context(), weak.Key.ID, ""); err != nil {
		t.Errorf("an operator revokes a key of another tenant: %v", err)
	}
}

func TestBadKeysAreRefused(t *testing.T) {
	t.Parallel()
	f := newFleet(t, withKeys(t, "root=ops:admin"))
	for body, field := range map[string]string{
		`{}`: "name", `{"name":"x\u001b[2J"}`: "name", `{"name":"` + strings.Repeat("x", 64) + `"}`: "name", `{"name":"x","tenant":"a b"}`: "tenant",
		`{"name":"x","role":"root"}`: "role", `{"name":"x","role":"none"}`: "role", `{"name":"x","label":"run"}`: "label", `{"name":"x","label":"=7"}`: "label",
		`{"name":"x","policy":"p@3"}`: "policy", `{"name":"x","for":"-1s"}`: "for", `{"name":"x","role":"operator","label":"a=b"}`: "role",
		`{"name":"x","label":"a=` + strings.Repeat("v", 5000) + `"}`: "label", `{"name":"x","token":"mine"}`: "token",
	} {
		var p api.ProblemDetails
		f.want(http.StatusUnprocessableEntity, &p, "POST", "/v1/keys", body, "Authorization", "Bearer root")
		if len(p.Errors) != 1 || p.Errors[0].Field != field {
			t.Errorf("%.80s: %+v", body, p)
		}
	}
	for _, path := range []string{"/v1/keys?limit=0", "/v1/keys?before=x", "/v1/keys/x"} {
		if resp, body := f.do("GET", path, "", "Authorization", "Bearer root"); resp.StatusCode/100 != 4 {
			t.Errorf("%s: %d %s", path, resp.StatusCode, body)
		}
	}
}

// After one dispatcher revokes a key, the others reject it within a second and end its requests.
func TestRevokedEverywhereWithinASecond(t *testing.T) {
	t.Parallel()
	one := newFleet(t, withKeys(t, "root=ops:admin"))
	two := newFleet(t, func(c *parts) {
		c.Store = one.store
		c.Auth = identity.WithKeys(identity.Tokens{}, runKeys(t, one.store))
	})
	one.runner.hold()
	made := one.key("root", api.KeyRequest{Name: "x", Tenant: "a"})
	b, err := two.client(client.WithToken(made.Token)).SubmitBatch(t.Context(), client.BatchOptions{}, strings.NewReader(lines(1)))
	if err != nil {
		t.Fatalf("at the other dispatcher: %v", err)
	}
	req, _ := http.NewRequestWithContext(t.Context(), "GET", two.url+"/v1/batches/"+string(b.ID)+"/events", nil)
	req.Header.Set("Authorization", "Bearer "+made.Token)
	stream, err := two.http.Do(req)
	if err != nil || stream.StatusCode != http.StatusOK {
		t.Fatal(stream, err)
	}
	defer stream.Body.Close()
	over := make(chan time.Time)
	go func() {
		for buf := make([]byte, 1<<10); ; {
			if _, err := stream.Body.Read(buf); err != nil {
				over <- time.Now()
				return
			}
		}
	}()
	polled := make(chan int, 1)
	go func() {
		code, _ := two.send(made.Token, "GET", "/v1/batches/"+string(b.ID)+"?wait=10m", nil)
		polled <- code
	}()
	for two.runner.watching(b.ID) < 2 { // the stream and the waiting request
		time.Sleep(10 * time.Millisecond)
	}
	if _, err := one.client(client.WithToken("root")).RevokeKey(t.Context(), made.Key.ID, ""); err != nil {
		t.Fatal(err)
	}
	revoked := time.Now()
	two.endsWithinASecond(made.Token)
	if code := <-polled; code != http.StatusUnauthorized || time.Since(revoked) > 2*time.Second {
		t.Errorf("who waits is answered with %d after %v", code, time.Since(revoked))
	}
	select {
	case at := <-over:
		if at.Sub(revoked) > time.Second {
			t.Errorf("a stream ended after %v", at.Sub(revoked))
		}
	case <-time.After(10 * time.Second):
		t.Error("a stream goes on")
	}
}

// The database has only the hash of a key. No table contains the token or its random part.
func TestOnlyHashesAreKept(t *testing.T) {
	t.Parallel()
	dsn := testenv.Postgres(t)
	if err := postgres.Migrate(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	s, err := postgres.Open(t.Context(), postgres.Config{DSN: dsn})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	f := newFleet(t, func(c *parts) { c.Store = s }, withKeys(t, "root=ops:admin"))
	made := f.key("root", api.KeyRequest{Name: "canary", Tenant: "a"})
	if _, err := f.client(client.WithToken(made.Token)).SubmitBatch(t.Context(), client.BatchOptions{}, strings.NewReader(lines(1))); err != nil {
		t.Fatal(err)
	}
	db, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(t.Context())
	rows, _ := db.Query(t.Context(), `SELECT c.oid::regclass::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relkind = 'r' AND n.nspname = 'public'`)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || !slices.Contains(tables, "keys") {
		t.Fatal(tables, err)
	}
	holding := func(text string) (in []string) {
		for _, table := range tables {
			var n int
			if err := db.QueryRow(t.Context(), `SELECT count(*) FROM `+table+` x WHERE strpos(x::text, $1) > 0`, text).Scan(&n); err != nil {
				t.Fatal(err)
			}
			if n > 0 {
				in = append(in, table)
			}
		}
		return in
	}
	if in := holding(strings.TrimPrefix(made.Token, "assay_")); len(in) > 0 {
		t.Errorf("the token is in %v", in)
	}
	if in := holding("canary"); !slices.Contains(in, "keys") {
		t.Errorf("the name is in %v: nothing would be found", in)
	}
}
