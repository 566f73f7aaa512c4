// Package languages runs small programs in every language of the catalogue over a fleet with the
// image polyglot. It judges their output, standard input, exit codes, exceptions, time, memory,
// compile errors and further files. Its table of versions and milliseconds is in docs/languages.md.
package languages
