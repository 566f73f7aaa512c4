// Package dev starts the real components of an Assay fleet, privately and on one machine.
//
// Each starter owns one directory and uses nothing outside it: a Postgres cluster on a unix socket,
// a nats-server inside this process, a containerd with its own root, state and socket. No system
// service is used, changed or restarted. `assay dev`, the tests and the benchmarks share these
// starters, so developers run the same components that are tested.
//
// The same rules apply to all of them:
//   - Start returns when the component answers, or with an error that explains the fix. The context
//     limits only the
//     start; a started component runs until Stop.
//   - The directory of a killed process is reused: the data is kept, everything else is removed.
//   - Children die with the process that started them, even if it is killed with SIGKILL.
//   - The caller locks the directory with Acquire, so that two processes never use the same data.
package dev
