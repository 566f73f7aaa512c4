package api

import "github.com/assay-run/assay/pkg/job"

// LanguageList answers GET /v1/languages: the catalogue, as programs in an image find it.
type LanguageList struct {
	Image     string     `json:"image"`
	Languages []Language `json:"languages"` // by name
}

// Language is a programming language that programs of kind code, and solutions of tests, may be in.
type Language struct {
	Name    string   `json:"name"`
	Title   string   `json:"title"`
	Aliases []string `json:"aliases"` // other names that programs may give it
	// Available says whether the image has it; nil: that is not known, and running something in it will show.
	Available *bool `json:"available,omitempty"`
	// Version is the line in which it says its version, where the image says which languages it has.
	Version string        `json:"version,omitempty"`
	File    string        `json:"file"`              // what its source is called where a program has one
	Compile *LanguageStep `json:"compile,omitempty"` // nil: what runs is the source
	Run     LanguageStep  `json:"run"`
}

// LanguageStep is how a language is compiled or run, in the directory of the sources, with the least that this works with.
type LanguageStep struct {
	Argv      []string          `json:"argv"` // with placeholders: see package language
	Env       map[string]string `json:"env,omitempty"`
	Memory    job.Size          `json:"memory,omitempty"`
	Processes int               `json:"processes,omitempty"`
	Wall      job.Duration      `json:"wall,omitempty"` // how long compiling may take by default
}
