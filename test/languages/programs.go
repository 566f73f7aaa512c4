package languages

import (
	"embed"
	"fmt"
	"strings"
)

// programs has a file for each language, in sections: "-- WHAT --" is the program that shows WHAT, "-- WHAT FILE --" a further
// file of it.
//
//go:embed programs/*.txt
var programs embed.FS

// program is the files of a program; the main file has no name.
type program map[string]string

// read returns the programs of a language, by section title.
func read(language string) (map[string]program, error) {
	text, err := programs.ReadFile("programs/" + language + ".txt")
	if err != nil {
		return nil, err
	}
	out := map[string]program{}
	for _, section := range strings.Split("\n"+string(text), "\n-- ")[1:] {
		head, body, ok := strings.Cut(section, " --\n")
		if !ok {
			return nil, fmt.Errorf("%s: section %.20q has no end of its head", language, section)
		}
		what, file, _ := strings.Cut(head, " ")
		if out[what] == nil {
			out[what] = program{}
		}
		out[what][file] = body + "\n"
	}
	return out, nil
}
