package httpapi

import (
	"net/http"
	"slices"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/httpapi/web"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/language"
)

// maxImageName is the longest accepted image name, in bytes.
const maxImageName = 500

// listLanguages responds with the catalogue, and with the languages that the image of the workers has.
func (s *Server) listLanguages(w http.ResponseWriter, r *http.Request) error {
	image := r.URL.Query().Get("image")
	if image == "" {
		image = job.DefaultImage
	}
	if len(image) > maxImageName {
		return job.Invalid("image", "is longer than the %d characters of a name of an image", maxImageName)
	}
	there := s.Workers.Languages(image)
	out := api.LanguageList{Image: image, Languages: []api.Language{}}
	for _, l := range language.All() {
		out.Languages = append(out.Languages, presentLanguage(&l, there))
	}
	return web.WriteJSON(w, http.StatusOK, out)
}

// presentLanguage describes a language. there has the versions in the image by language; it is nil if they are unknown.
func presentLanguage(l *language.Language, there map[string]string) api.Language {
	out := api.Language{
		Name: l.Name, Title: l.Title, Aliases: append([]string{}, l.Aliases...), File: l.File, Run: *presentStep(&l.Run), Compile: presentStep(l.Compile),
	}
	if there != nil {
		version, ok := there[l.Name]
		out.Available, out.Version = &ok, version
	}
	return out
}

func presentStep(s *language.Step) *api.LanguageStep {
	if s == nil {
		return nil
	}
	return &api.LanguageStep{Argv: slices.Clone(s.Argv), Env: s.Env, Memory: s.Memory, Processes: s.Processes, Wall: job.Duration(s.Wall)}
}
