package ui_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/ui"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// secretOfOne is in all data of tenant one.
const secretOfOne = "only-of-tenant-one"

// belongings are the objects of tenant one.
type belongings struct{ job, batch, session, key job.ID }

func (f *fleet) belongings() (b belongings) {
	f.t.Helper()
	b.batch = f.submit("one", secretOfOne, map[string]string{"label": secretOfOne}, job.Spec{Name: secretOfOne, Image: "python", Labels: map[string]string{"l": secretOfOne},
		Program: job.Program{Python: &job.Python{Code: secretOfOne}}})
	f.finish("w1", f.claim("w1"), func(store.Claimed) job.Result {
		return job.Result{Outcome: job.Succeeded, Stdout: job.Output{Text: secretOfOne}, Artifacts: []job.Artifact{{Path: "/a", MediaType: secretOfOne}}}
	})
	b.job = f.jobsOf("one", b.batch)[0].ID
	b.session = f.putSession(f.t.Context(), "one", secretOfOne)
	own := f.as(oneKey)
	resp, page := own.post("/ui/do/make-key", url.Values{"form": {formOf(f.t, own.page("/ui/keys"))}, "on": {"one"}, "name": {secretOfOne}})
	if resp.StatusCode != http.StatusOK {
		f.t.Fatalf("make a key: %d %s", resp.StatusCode, page)
	}
	token := strings.Fields(page[strings.Index(page, "assay_"):])[0]
	token, _, _ = strings.Cut(token, "<")
	resp, raw := own.get("/v1/keys", "Authorization", "Bearer "+oneKey)
	var list api.KeyList
	if err := json.Unmarshal([]byte(raw), &list); err != nil || len(list.Keys) != 1 {
		f.t.Fatalf("keys: %d %v %s", resp.StatusCode, err, raw)
	}
	if again := own.page("/ui/keys"); !strings.Contains(again, secretOfOne) || strings.Contains(again, token) {
		f.t.Error("the list of keys has not the key, or has its token")
	}
	b.key = list.Keys[0].ID
	return b
}

// pagesOfOthers has the responses of pages to another tenant's submitter, with the ids of tenant one: pages that are
// not found, not for submitters, or about the caller's own tenant.
var pagesOfOthers = map[string]struct {
	path string
	want []int
}{
	"GET /ui/{$}":                           {"/ui/", []int{200}},
	"GET /ui/signin":                        {"/ui/signin", []int{303}},
	"GET /ui/signin/issuer":                 {"/ui/signin/issuer", []int{404}},
	"GET /ui/signin/callback":               {"/ui/signin/callback", []int{404}},
	"GET /ui/batches":                       {"/ui/batches", []int{200}},
	"GET /ui/batches/{id}":                  {"/ui/batches/{batch}", []int{404}},
	"GET /ui/batches/{id}/map":              {"/ui/batches/{batch}/map", []int{404}},
	"GET /ui/batches/{id}/at/{n}":           {"/ui/batches/{batch}/at/0", []int{404}},
	"GET /ui/compare":                       {"/ui/compare?b={batch}&b={batch}", []int{404}},
	"GET /ui/jobs":                          {"/ui/jobs?batch={batch}", []int{200, 404}},
	"GET /ui/jobs/{id}":                     {"/ui/jobs/{job}", []int{404}},
	"GET /ui/jobs/{id}/log/{stream}":        {"/ui/jobs/{job}/log/stdout", []int{404}},
	"GET /ui/jobs/{id}/logs":                {"/ui/jobs/{job}/logs", []int{404}},
	"GET /ui/jobs/{id}/output/{stream}":     {"/ui/jobs/{job}/output/stdout", []int{404}},
	"GET /ui/jobs/{id}/artifacts/{path...}": {"/ui/jobs/{job}/artifacts/a", []int{404}},
	"GET /ui/jobs/{id}/spec.json":           {"/ui/jobs/{job}/spec.json", []int{404}},
	"GET /ui/sessions":                      {"/ui/sessions?state=all", []int{200}},
	"GET /ui/sessions/{id}":                 {"/ui/sessions/{session}", []int{404}},
	"GET /ui/workers":                       {"/ui/workers", []int{200}},
	"GET /ui/tenants":                       {"/ui/tenants?tenant=one", []int{404}},
	"GET /ui/keys":                          {"/ui/keys?tenant=one", []int{403, 404}},
	"GET /ui/audit":                         {"/ui/audit", []int{403}},
	"GET /ui/do/{action}":                   {"/ui/do/cancel-job?on={job}", []int{200}},
	"/ui/":                                  {"/ui/{job}", []int{404}},
}

// actionsOfOthers has the responses to actions on objects of tenant one, for a submitter and an admin of another
// tenant.
var actionsOfOthers = map[string]struct {
	on        string
	submitter int
	admin     int // 0: admins may do it for any tenant
}{
	"cancel-job": {"{job}", 404, 404}, "cancel-batch": {"{batch}", 404, 404}, "retry-batch": {"{batch}", 404, 404}, "end-session": {"{session}", 404, 404}, "interrupt-session": {"{session}", 404, 404},
	"delete-job": {"{job}", 403, 404}, "delete-batch": {"{batch}", 403, 404}, "link-artifact": {"{job}", 404, 404}, "revoke-key": {"{key}", 404, 0}, "make-key": {"one", 403, 0}, "grant": {"one", 403, 0},
	"cordon-workers": {"p", 403, 0}, "uncordon-workers": {"p", 403, 0}, "cordon": {"w1", 403, 0}, "uncordon": {"w1", 403, 0}, "quarantine": {"w1", 403, 0}, "unquarantine": {"w1", 403, 0}, "requeue": {"w1", 403, 0}, "override": {"one", 403, 0}, "restore": {"one", 403, 0},
	"pause-batch": {"{batch}", 403, 0}, "resume-batch": {"{batch}", 403, 0}, "pause-tenant": {"one", 403, 0}, "resume-tenant": {"one", 403, 0}, "pause-pool": {"p", 403, 0}, "resume-pool": {"p", 403, 0},
}

// listsOfAll are the pages that list rows of all tenants for admins. Their links lead to no other tenant's objects.
var listsOfAll = []string{"audit", "keys", "batches", "jobs", "sessions"}

// No page shows and no action changes another tenant's objects.
func TestEveryPageOfAnotherTenant(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	has := f.belongings()
	fill := strings.NewReplacer("{job}", string(has.job), "{batch}", string(has.batch), "{session}", string(has.session), "{key}", string(has.key))
	b, admin := f.as(otherKey), f.as("admin-two")
	for _, pattern := range ui.Patterns() {
		c, known := pagesOfOthers[pattern]
		if strings.HasPrefix(pattern, "POST ") { // signing in and out, and routes with their own tests
			continue
		}
		if !known {
			t.Errorf("%s: a page that this test does not know", pattern)
			continue
		}
		for _, who := range []*browser{b, admin} {
			resp, page := who.get(fill.Replace(c.path))
			if who == b && !slices.Contains(c.want, resp.StatusCode) {
				t.Errorf("%s: %d, want one of %v", pattern, resp.StatusCode, c.want)
			}
			fleets := who == admin && slices.Contains(listsOfAll, strings.TrimPrefix(pattern, "GET /ui/"))
			if strings.Contains(page, secretOfOne) && !fleets {
				t.Errorf("%s shows what another tenant has", pattern)
			}
			for _, id := range []job.ID{has.job, has.batch, has.session} {
				if strings.Contains(page, `href="/ui/`) && strings.Contains(page, "/"+string(id)+`"`) && resp.StatusCode == http.StatusOK {
					t.Errorf("%s links to what another tenant has", pattern)
				}
			}
		}
	}
	for _, name := range ui.Actions() {
		c, known := actionsOfOthers[name]
		if !known {
			t.Errorf("%s: an action that this test does not know", name)
			continue
		}
		for _, who := range []struct {
			*browser
			want int
		}{{b, c.submitter}, {admin, c.admin}} {
			if who.want == 0 {
				continue
			}
			form := url.Values{"form": {formOf(t, who.page("/ui/sessions"))}, "on": {fill.Replace(c.on)}, "path": {"/a"}, "expires_in": {"1h"}, "name": {"n"}, "weight": {"1"}, "max_running": {"1"}, "reason": {"r"}}
			resp, page := who.post("/ui/do/"+name, form)
			if resp.StatusCode != who.want || strings.Contains(page, secretOfOne) {
				t.Errorf("%s: %d, want %d; %v", name, resp.StatusCode, who.want, strings.Contains(page, secretOfOne))
			}
			_, asks := who.get("/ui/do/" + name + "?" + url.Values{"on": {fill.Replace(c.on)}}.Encode())
			if strings.Contains(asks, secretOfOne) {
				t.Errorf("%s asks with what another tenant has", name)
			}
		}
	}
	for _, path := range []string{"/ui/jobs/{job}", "/ui/batches/{batch}", "/ui/sessions/{session}", "/ui/keys"} {
		if page := f.as(oneKey).page(fill.Replace(path)); !strings.Contains(page, secretOfOne) {
			t.Errorf("%s: what tenant one has is gone, or was never shown", path)
		}
	}
}
