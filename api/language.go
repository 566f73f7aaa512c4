package api

import "github.com/assay-run/assay/pkg/job"

// LanguageList is the response of GET /v1/languages: the catalogue for programs in an image.
type LanguageList struct {
	Image     string     `json:"image"`
	Languages []Language `json:"languages"` // sorted by name
}

// Language is a programming language for programs of kind code and for solutions.
type Language struct {
	Name    string   `json:"name"`
	Title   string   `json:"title"`
	Aliases []string `json:"aliases"` // alternative names
	// Available reports whether the image has the language. Nil: unknown; a run will show.
	Available *bool `json:"available,omitempty"`
	// Version is the version line from the image's label of languages.
	Version string        `json:"version,omitempty"`
	File    string        `json:"file"`              // the name of a single source file
	Compile *LanguageStep `json:"compile,omitempty"` // nil: the source is run directly
	Run     LanguageStep  `json:"run"`
}

// LanguageStep is the command that compiles or runs a language in the directory of the sources, and
// its minimum requirements.
type LanguageStep struct {
	Argv      []string          `json:"argv"` // with placeholders: see package language
	Env       map[string]string `json:"env,omitempty"`
	Memory    job.Size          `json:"memory,omitempty"`
	Processes int               `json:"processes,omitempty"`
	Wall      job.Duration      `json:"wall,omitempty"` // default time limit of a compilation
}
