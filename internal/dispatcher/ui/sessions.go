package ui

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/ui/display"
	"github.com/assay-run/assay/pkg/job"
)

type sessionsPage struct {
	Sessions []job.Session
	All      bool
	Owners   owners
}

func (s *Server) sessions(v *visit) error {
	p := sessionsPage{All: v.r.URL.Query().Get("state") == "all"}
	q := url.Values{"limit": {"100"}}
	if !p.All {
		q.Set("state", "live")
	}
	p.Owners = v.ownersOf(q)
	var list api.SessionList
	if err := v.get("/v1/sessions", q, &list); err != nil {
		return err
	}
	p.Sessions = list.Sessions
	return v.show("sessions", "Sessions", true, p)
}

// openSession opens a session, by default with the API's default policy.
func (s *Server) openSession(v *visit) error {
	spec := job.SessionSpec{Name: strings.TrimSpace(v.r.PostForm.Get("name")), Kind: job.SessionKind(v.r.PostForm.Get("kind"))}
	if name := strings.TrimSpace(v.r.PostForm.Get("policy")); name != "" {
		spec.Policy, _ = json.Marshal(name) // a string always marshals
	}
	var made job.Session
	if err := v.api().JSON(v.r.Context(), apiCall{Method: http.MethodPost, Path: "/v1/sessions", Body: spec}, &made); err != nil {
		return err
	}
	v.say("The session is open.")
	return v.to("/ui/sessions/" + string(made.ID))
}

// execution is an execution on the page.
type execution struct {
	ID     job.ID
	Code   string
	Result job.Execute
	Output []job.Chunk
	Shows  []display.Display
}

type variable struct {
	Name string
	job.Variable
}

type sessionPage struct {
	Session    job.Session
	Executions []execution
	Older      int // number of older executions that are not shown
	Newer      int // number of newer executions that are not shown
	Variables  []variable
	NoVars     string // reason for missing variables
	Live       bool
	Wrong      string // error of the last request
	Code       string
}

const (
	executionsShown = 20
	executionPages  = 40 // most pages of executionsShown that are read
	variablesShown  = 100
)

func (s *Server) session(v *visit) error { return s.showSession(v, http.StatusOK, "", "") }

func (s *Server) showSession(v *visit, status int, wrong, code string) error {
	id, err := v.id()
	if err != nil {
		return err
	}
	p := sessionPage{Wrong: wrong, Code: code}
	if err := v.get("/v1/sessions/"+string(id), nil, &p.Session); err != nil {
		return err
	}
	p.Live = p.Session.State == job.SessionLive
	if v.part() && p.Live && v.r.Header.Get("Assay-Seen") == strconv.Itoa(p.Session.Executions) {
		v.w.WriteHeader(http.StatusNoContent) // the page is up to date
		return nil
	}
	if p.Executions, p.Older, p.Newer, err = v.lastExecutions(p.Session); err != nil {
		return err
	}
	if p.Live {
		p.Variables, p.NoVars = v.variables(id)
	}
	title := "Session"
	if p.Session.Spec.Name != "" {
		title = p.Session.Spec.Name
	}
	return v.showAs(status, "session", title, p.Live, p)
}

// lastExecutions returns the last executions of a session, and the numbers of older and newer ones. There are newer ones if the
// session has more executions than executionPages.
func (v *visit) lastExecutions(of job.Session) (out []execution, older, newer int, err error) {
	read := 0
	var after job.ID
	var page []json.RawMessage
	for n := 0; n < executionPages; n++ {
		q := url.Values{"limit": {"20"}}
		if after != "" {
			q.Set("after", string(after))
		}
		var list struct {
			Executions []json.RawMessage `json:"executions"`
		}
		if err := v.get("/v1/sessions/"+string(of.ID)+"/executions", q, &list); err != nil {
			return nil, 0, 0, err
		}
		if len(list.Executions) == 0 {
			break
		}
		read += len(list.Executions)
		page = append(page, list.Executions...)
		page = page[max(len(page)-executionsShown, 0):]
		var last struct {
			ID job.ID `json:"id"`
		}
		if err := json.Unmarshal(list.Executions[len(list.Executions)-1], &last); err != nil {
			return nil, 0, 0, err
		}
		if after = last.ID; len(list.Executions) < 20 {
			break
		}
	}
	for _, raw := range page {
		var e execution
		if err := json.Unmarshal(raw, &e); err != nil {
			return nil, 0, 0, err
		}
		if e.Output = e.Result.Output; len(e.Output) == 0 {
			e.Output = []job.Chunk{{Stream: "stdout", Text: e.Result.Stdout.Text}, {Stream: "stderr", Text: e.Result.Stderr.Text}}
		}
		e.Shows = display.Displays(e.Result.Display)
		out = append(out, e)
	}
	return out, read - len(out), max(of.Executions-read, 0), nil
}

// variables returns the session's variables, or the reason why there are none, for example because the session is busy.
func (v *visit) variables(id job.ID) ([]variable, string) {
	var list api.VariableList
	if err := v.get("/v1/sessions/"+string(id)+"/variables", nil, &list); err != nil {
		return nil, api.NewProblem(err).Detail
	}
	var out []variable
	for _, name := range slices.Sorted(maps.Keys(list.Variables)) {
		if out = append(out, variable{name, list.Variables[name]}); len(out) == variablesShown {
			break
		}
	}
	return out, ""
}

// execute runs the entered code.
func (s *Server) execute(v *visit) error {
	id, err := v.id()
	if err != nil {
		return err
	}
	code := strings.ReplaceAll(v.r.PostForm.Get("code"), "\r\n", "\n")
	if strings.TrimSpace(code) == "" {
		return s.showSession(v, http.StatusUnprocessableEntity, "Type something to execute.", "")
	}
	rq := apiCall{Method: http.MethodPost, Path: "/v1/sessions/" + string(id) + "/execute", Body: api.ExecuteRequest{Code: code}}
	if _, err := v.api().Do(v.r.Context(), rq); err != nil {
		p := api.NewProblem(err)
		if p.Status == http.StatusNotFound || p.Status == http.StatusForbidden {
			return err
		}
		return s.showSession(v, p.Status, p.Detail, code)
	}
	return v.to("/ui/sessions/" + string(id) + "#prompt")
}
