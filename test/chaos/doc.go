// Package chaos breaks fleets of real processes and checks from what they
// recorded that the promises of the design held: every accepted job has one
// terminal record, whoever died. README.md says which test stands for which row
// of the failure matrix, and how to run the long version.
package chaos
