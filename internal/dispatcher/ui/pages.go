package ui

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"maps"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/internal/dispatcher/ui/display"
	"github.com/assay-run/assay/pkg/job"
)

// asset is a static file.
type asset struct {
	data  []byte
	media string
	tag   string // hash of the content; in addresses it allows unlimited caching
}

func readAssets() (map[string]asset, error) {
	out := map[string]asset{}
	entries, err := fs.ReadDir(files, "assets")
	if err != nil {
		return nil, fmt.Errorf("web page: %w", err)
	}
	for _, e := range entries {
		data, err := files.ReadFile("assets/" + e.Name())
		if err != nil {
			return nil, fmt.Errorf("web page: %w", err)
		}
		sum := sha256.Sum256(data)
		media := mime.TypeByExtension(path.Ext(e.Name()))
		switch path.Ext(e.Name()) { // do not depend on the host's tables
		case ".js":
			media = "text/javascript; charset=utf-8"
		case ".css":
			media = "text/css; charset=utf-8"
		case ".svg":
			media = "image/svg+xml"
		case ".txt":
			media = "text/plain; charset=utf-8"
		}
		out[e.Name()] = asset{data: data, media: media, tag: hex.EncodeToString(sum[:6])}
	}
	return out, nil
}

func (s *Server) asset(w http.ResponseWriter, r *http.Request) {
	harden(w.Header())
	a, ok := s.assets[r.PathValue("name")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", a.media)
	h.Set("ETag", `"`+a.tag+`"`)
	h.Set("Cache-Control", "no-cache")
	if r.URL.Query().Get("v") == a.tag {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	if r.Header.Get("If-None-Match") == h.Get("ETag") {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	_, _ = w.Write(a.data)
}

// pages has the templates by name. Each includes the layout.
type pages struct {
	byName map[string]*template.Template
}

func readPages(assets map[string]asset, now func() time.Time) (*pages, error) {
	funcs := maps.Clone(helpers)
	funcs["now"] = now
	funcs["ago"] = func(t time.Time) string { return display.Ago(t, now()) }
	funcs["asset"] = func(name string) (string, error) {
		a, ok := assets[name]
		if !ok {
			return "", fmt.Errorf("there is no asset %q", name)
		}
		return "/ui/assets/" + name + "?v=" + a.tag, nil
	}
	layout, err := template.New("layout.html").Funcs(funcs).Option("missingkey=error").ParseFS(files, "templates/layout.html", "templates/parts.html")
	if err != nil {
		return nil, fmt.Errorf("web page: %w", err)
	}
	out := &pages{byName: map[string]*template.Template{}}
	names, err := fs.Glob(files, "templates/*.html")
	if err != nil {
		return nil, fmt.Errorf("web page: %w", err)
	}
	for _, name := range names {
		if base := path.Base(name); base != "layout.html" && base != "parts.html" {
			t, err := layout.Clone()
			if err == nil {
				_, err = t.ParseFS(files, name)
			}
			if err != nil {
				return nil, fmt.Errorf("web page: %w", err)
			}
			out.byName[strings.TrimSuffix(base, ".html")] = t
		}
	}
	return out, nil
}

// link is an entry of the menu.
type link struct {
	Name, Path string
	Here       bool
}

// view is the data of every template.
type view struct {
	Title  string
	Path   string // with its query; pages poll it
	Menu   []link
	Who    identity.Identity
	Open   bool
	Form   string // token of the visit's forms
	Said   string
	Live   bool // may change without the visitor
	Parted bool // only the changing part is rendered
	Data   any
}

// May reports whether the visitor has a role.
func (v view) May(role string) bool {
	r, err := identity.ParseRole(role)
	return err == nil && v.Who.Role >= r
}

func (v *visit) menu() []link {
	if v.who.Role == identity.None {
		return nil
	}
	all := []link{{Name: "Overview", Path: "/ui/"}, {Name: "Batches", Path: "/ui/batches"}, {Name: "Jobs", Path: "/ui/jobs"}, {Name: "Sessions", Path: "/ui/sessions"},
		{Name: "Workers", Path: "/ui/workers"}, {Name: "Tenants", Path: "/ui/tenants"}}
	if v.who.Role >= identity.Submitter {
		all = append(all, link{Name: "Keys", Path: "/ui/keys"})
	}
	if v.who.Role >= identity.Operator {
		all = append(all, link{Name: "Audit", Path: "/ui/audit"})
	}
	for i, l := range all {
		all[i].Here = v.r.URL.Path == l.Path || strings.HasPrefix(v.r.URL.Path, l.Path+"/")
	}
	return all
}

// show renders a page or, if the script requests it, the changing part. live is whether the page may still change.
func (v *visit) show(name, title string, live bool, data any) error {
	return v.showAs(http.StatusOK, name, title, live, data)
}

func (v *visit) showAs(status int, name, title string, live bool, data any) error {
	t := v.s.pages.byName[name]
	if t == nil {
		return fmt.Errorf("there is no template %q", name)
	}
	block := "layout.html"
	parted := v.part() && t.Lookup("live") != nil && status == http.StatusOK
	if parted {
		block = "live"
	}
	if v.fresh {
		if err := v.keep(); err != nil {
			return err
		}
	}
	var b bytes.Buffer
	err := t.ExecuteTemplate(&b, block, view{Title: title, Path: v.r.URL.RequestURI(), Menu: v.menu(), Who: v.who, Open: v.s.open,
		Form: v.s.seals.Form(v.ID), Said: v.takeMessage(), Live: live, Parted: parted, Data: data})
	if err != nil {
		return fmt.Errorf("page %s: %w", name, err)
	}
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.w.Header().Add("Vary", "HX-Request")
	v.w.WriteHeader(status)
	_, _ = v.w.Write(b.Bytes()) // the client may be gone
	return nil
}

// fail renders an error, or redirects to the sign-in page.
func (v *visit) fail(err error) {
	if errors.Is(err, api.ErrUnauthorized) {
		where := "/ui/signin"
		if v.r.Method == http.MethodGet && !v.part() && v.r.URL.Path != "/ui/" {
			where += "?to=" + template.URLQueryEscaper(v.r.URL.RequestURI())
		}
		_ = v.to(where)
		return
	}
	p := api.NewProblem(err)
	if p.Status >= http.StatusInternalServerError && !errors.Is(err, job.ErrUnavailable) {
		v.s.Log.LogAttrs(v.r.Context(), slog.LevelError, "web page failed", slog.String("path", v.r.URL.Path), slog.String("error", err.Error()))
	}
	v.w.Header().Del("Content-Length")
	if bad := v.showAs(p.Status, "problem", p.Title, false, p); bad != nil {
		http.Error(v.w, p.Title, p.Status)
	}
}
