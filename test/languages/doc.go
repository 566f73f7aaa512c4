// Package languages runs small programs in every language of the catalogue over a fleet with the image polyglot, and judges
// what becomes of them: output, standard input, exit codes, exceptions, time, memory, compile errors and further files. Its
// table of versions and milliseconds is that of docs/languages.md.
package languages
